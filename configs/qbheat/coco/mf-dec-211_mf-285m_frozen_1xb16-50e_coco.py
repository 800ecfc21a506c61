# One GPU with the batch of 8 GPUs, 16 images, and hence with their learning
# rate. Where 16 do not fit: train_dataloader.batch_size=8 and --auto-scale-lr,
# which makes it 5e-5.
_base_ = [
    '../../_base_/models/mf-dec.py', '../../_base_/datasets/coco_detr.py',
    '../../_base_/schedules/detr_50e.py',
    '../../_base_/detection_runtime.py'
]

train_dataloader = dict(batch_size=16, num_workers=8)

model = dict(
    backbone=dict(arch='mf-285m'), in_channels=(48, 720), depths=(2, 1, 1))
