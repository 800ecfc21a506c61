# MoCo-v2's own recipe (200 epochs, SGD with lr 0.03 at batch 256), as for the
# numbers cited in Table 1.
_base_ = [
    '../_base_/models/mocov2.py',
    '../_base_/datasets/imagenet_mocov2.py',
    'mmpretrain::_base_/schedules/imagenet_sgd_coslr_200e.py',
    '../_base_/runtime_mmpretrain.py'
]

# base_batch_size = (8 GPUs) x (32 images per GPU)
auto_scale_lr = dict(base_batch_size=256)
