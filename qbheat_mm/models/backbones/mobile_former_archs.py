# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The published variants of Mobile-Former, as data.

Each row is (block, #exp, #out): ``lite`` is the lite bottleneck, ``mf`` the
Mobile-Former block, ``-down`` their stride-2 forms; #exp the channels of the
(first) depthwise convolution, #out those of the block's output. One list per
resolution, starting at 1/2 (after the stride-2 stem) or 1/4 of the image.
"""

# "Specification of Mobile-Former encoders" in the appendix of QB-Heat. One
# correction: the first stage-4 row of MF-1.0G is printed as (288, 96), a copy
# of the row above it. (576, 176), half of MF-3.7G's as in all other rows,
# reproduces the parameters and MAdds printed for this encoder.
QBHEAT_ENCODERS = {
    'mf-285m':
    dict(
        stem=16,
        tokens=(6, 192),
        stages=[
            [('lite', 32, 16)],
            [('mf-down', 96, 28), ('mf', 84, 28)],
            [('mf-down', 168, 48), ('mf', 144, 48), ('mf', 144, 48)],
            [('mf-down', 240, 80), ('mf', 320, 88), ('mf', 480, 88),
             ('mf', 528, 120), ('mf', 720, 120), ('mf', 720, 120)],
        ],
        conv=720),
    'mf-1.0g':
    dict(
        stem=32,
        tokens=(6, 256),
        stages=[
            [('lite', 64, 32)],
            [('mf-down', 192, 56), ('mf', 168, 56)],
            [('mf-down', 336, 96), ('mf', 288, 96), ('mf', 288, 96)],
            [('mf-down', 576, 176), ('mf', 704, 176), ('mf', 704, 176),
             ('mf', 1056, 240), ('mf', 1440, 240), ('mf', 1440, 240)],
        ],
        conv=1440),
    'mf-3.7g':
    dict(
        stem=64,
        tokens=(6, 256),
        stages=[
            [('lite', 128, 64)],
            [('mf-down', 384, 112), ('mf', 336, 112)],
            [('mf-down', 672, 192), ('mf', 576, 192), ('mf', 576, 192)],
            [('mf-down', 1152, 352), ('mf', 1408, 352), ('mf', 1408, 352),
             ('mf', 2112, 480), ('mf', 2880, 480), ('mf', 2880, 480)],
        ],
        conv=2880),
}

# Mobile-Former V1 (CVPR 2022): the last stage is at 1/32, another
# Mobile->Former follows the last block, and the 1x1 convolution is six times
# as wide as that block.
V1_ENCODERS = {
    'mf-26m':
    dict(
        stem=8,
        tokens=(3, 128),
        stages=[
            [('lite-down', 24, 12), ('mf', 36, 12)],
            [('mf-down', 72, 24), ('mf', 72, 24)],
            [('mf-down', 144, 48), ('mf', 192, 48), ('mf', 288, 64)],
            [('mf-down', 384, 96), ('mf', 576, 96)],
        ],
        conv=576,
        groups=4,
        final_bridge=True),
    'mf-52m':
    dict(
        stem=8,
        tokens=(3, 128),
        stages=[
            [('lite-down', 24, 12), ('mf', 36, 12)],
            [('mf-down', 72, 24), ('mf', 72, 24)],
            [('mf-down', 144, 48), ('mf', 192, 48), ('mf', 288, 64)],
            [('mf-down', 384, 96), ('mf', 576, 96)],
        ],
        conv=576,
        final_bridge=True),
    'mf-96m':
    dict(
        stem=12,
        tokens=(4, 128),
        stages=[
            [('lite', 24, 12)],
            [('mf-down', 72, 16)],
            [('mf-down', 96, 32), ('mf', 96, 32)],
            [('mf-down', 192, 64), ('mf', 256, 64), ('mf', 384, 88)],
            [('mf-down', 528, 128), ('mf', 768, 128)],
        ],
        conv=768,
        final_bridge=True),
    'mf-151m':
    dict(
        stem=12,
        tokens=(6, 192),
        stages=[
            [('lite', 24, 12)],
            [('mf-down', 72, 16), ('mf', 48, 16)],
            [('mf-down', 96, 32), ('mf', 96, 32)],
            [('mf-down', 192, 64), ('mf', 256, 64), ('mf', 384, 88),
             ('mf', 528, 88)],
            [('mf-down', 528, 128), ('mf', 768, 128), ('mf', 768, 128)],
        ],
        conv=768,
        final_bridge=True),
    'mf-214m':
    dict(
        stem=12,
        tokens=(6, 192),
        stages=[
            [('lite', 24, 12)],
            [('mf-down', 72, 20), ('mf', 60, 20)],
            [('mf-down', 120, 40), ('mf', 160, 40)],
            [('mf-down', 240, 80), ('mf', 320, 80), ('mf', 480, 112),
             ('mf', 672, 112)],
            [('mf-down', 672, 160), ('mf', 960, 160), ('mf', 960, 160)],
        ],
        conv=960,
        final_bridge=True),
    'mf-294m':
    dict(
        stem=16,
        tokens=(6, 192),
        stages=[
            [('lite', 32, 16)],
            [('mf-down', 96, 24), ('mf', 96, 24)],
            [('mf-down', 144, 48), ('mf', 192, 48)],
            [('mf-down', 288, 96), ('mf', 384, 96), ('mf', 576, 128),
             ('mf', 768, 128)],
            [('mf-down', 768, 192), ('mf', 1152, 192), ('mf', 1152, 192)],
        ],
        conv=1152,
        final_bridge=True),
    'mf-508m':
    dict(
        stem=24,
        tokens=(6, 192),
        stages=[
            [('lite', 48, 24)],
            [('mf-down', 144, 40), ('mf', 120, 40)],
            [('mf-down', 240, 72), ('mf', 216, 72)],
            [('mf-down', 432, 128), ('mf', 512, 128), ('mf', 768, 176),
             ('mf', 1056, 176)],
            [('mf-down', 1056, 240), ('mf', 1440, 240), ('mf', 1440, 240)],
        ],
        conv=1440,
        final_bridge=True),
}

ARCHS = {**QBHEAT_ENCODERS, **V1_ENCODERS}
