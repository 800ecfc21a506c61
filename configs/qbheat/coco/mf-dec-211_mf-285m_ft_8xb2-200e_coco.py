_base_ = [
    '../../_base_/models/mf-dec_ft.py', '../../_base_/datasets/coco_detr.py',
    '../../_base_/schedules/detr_ft_200e.py',
    '../../_base_/detection_runtime.py'
]

# The checkpoint of the frozen run: --cfg-options load_from=FILE
load_from = None
default_hooks = dict(
    checkpoint_match=dict(required='mf-dec-211_mf-285m_frozen_8xb2-500e_coco'))

model = dict(
    backbone=dict(arch='mf-285m'), in_channels=(48, 720), depths=(2, 1, 1))
