# Appendix "Object Detection in COCO": 200 more epochs from the frozen run, all
# parts at 1e-5, x0.1 after 150 epochs.
_base_ = './mf-dec-211_mf-285m_frozen_8xb2-500e_coco.py'

# The checkpoint of the frozen run: --cfg-options load_from=FILE
load_from = None
custom_hooks = [
    dict(
        type='RequireCheckpointHook',
        origin='mf-dec-211_mf-285m_frozen_8xb2-500e_coco')
]

# With two images a GPU, BN of the encoder keeps its statistics, as in DETR.
model = dict(
    backbone=dict(frozen_stages=-1, norm_eval=True, init_cfg=None))

optim_wrapper = dict(optimizer=dict(lr=1e-5))
train_cfg = dict(max_epochs=200)
param_scheduler = [
    dict(
        type='MultiStepLR',
        begin=0,
        end=200,
        by_epoch=True,
        milestones=[150],
        gamma=0.1)
]
