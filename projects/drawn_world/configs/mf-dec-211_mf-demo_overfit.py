# Can MF-Dec-211 learn? It overfits 32 of the demo's images, with a random
# encoder trained along, and is evaluated on the same 32. Full width, but few
# queries and no dropout, for speed.
_base_ = [
    '../../../configs/_base_/models/mf-dec.py', './_base_/mf_demo_arch.py',
    './_base_/demo_coco.py', './_base_/demo_detection_runtime.py'
]
custom_imports = dict(
    imports=['qbheat_mm.detection', 'projects.drawn_world.detection'])

model = dict(
    data_preprocessor=_base_.pixel_stats,
    backbone=dict(arch=_base_.mf_demo, frozen_stages=-1, init_cfg=None),
    in_channels=(32, 256),
    depths=(2, 1, 1),
    num_queries=10,
    dropout=0.,
    bbox_head=dict(num_classes=8),
    test_cfg=dict(max_per_img=10))

memorised = dict(split='train', indices=32)
train_pipeline = [
    step for step in _base_.train_pipeline if step['type'] != 'RandomFlip'
]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline, **memorised))
val_dataloader = dict(dataset=memorised)
test_dataloader = val_dataloader

optim_wrapper = dict(optimizer=dict(lr=5e-4), clip_grad=dict(max_norm=1.))
train_cfg = dict(max_epochs=150, val_interval=30)

default_hooks = dict(logger=dict(interval=2))
log_processor = dict(window_size=2)
