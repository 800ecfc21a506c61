# The demo's encoder, 0.5M parameters: few and narrow blocks. Output 2 has 1/8
# of the size and 32 channels, output 4 has 1/16 and 256.
mf_demo = dict(
    stem=8,
    tokens=(3, 64),
    stages=[[('lite', 16, 8)], [('mf-down', 32, 16), ('mf', 48, 16)],
            [('mf-down', 96, 32), ('mf', 128, 32)],
            [('mf-down', 192, 64), ('mf', 256, 64), ('mf', 256, 64)]],
    conv=256)

# The same for all channels keeps grey patches grey.
pixel_stats = dict(mean=[120.] * 3, std=[60.] * 3)
