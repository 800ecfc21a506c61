# The demo's encoder, 0.5M parameters: the stages and strides of the QB-Heat
# encoders with few and narrow blocks. Outputs: 2 is 1/8 with 32 channels, 4
# is 1/16 with 256.
mf_demo = dict(
    stem=8,
    tokens=(3, 64),
    stages=[[('lite', 16, 8)], [('mf-down', 32, 16), ('mf', 48, 16)],
            [('mf-down', 96, 32), ('mf', 128, 32)],
            [('mf-down', 192, 64), ('mf', 256, 64), ('mf', 256, 64)]],
    conv=256)

# One mean and deviation for all channels: grey stays grey. With ImageNet's a
# smooth grey patch gets a hue, the same everywhere, and once the patch is
# normalised little else is left to predict of it.
pixel_stats = dict(mean=[120.] * 3, std=[60.] * 3)
