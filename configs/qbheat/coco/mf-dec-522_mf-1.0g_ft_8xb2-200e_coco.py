_base_ = './mf-dec-211_mf-285m_ft_8xb2-200e_coco.py'

# The checkpoint of the frozen run: --cfg-options load_from=FILE
load_from = None
custom_hooks = [
    dict(
        type='RequireCheckpointHook',
        origin='mf-dec-522_mf-1.0g_frozen_8xb2-500e_coco')
]

model = dict(
    backbone=dict(arch='mf-1.0g'), in_channels=(96, 1440), depths=(5, 2, 2))
