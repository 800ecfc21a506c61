_base_ = [
    '../../_base_/models/mf-dec_ft.py', '../../_base_/datasets/coco_detr.py',
    '../../_base_/schedules/detr_ft_200e.py',
    '../../_base_/detection_runtime.py'
]

# The checkpoint of the frozen run: --cfg-options load_from=FILE
load_from = None
custom_hooks = [
    dict(
        type='RequireCheckpointHook',
        origin='mf-dec-522_mf-1.0g_frozen_8xb2-500e_coco')
]

model = dict(
    backbone=dict(arch='mf-1.0g'), in_channels=(96, 1440), depths=(5, 2, 2))
