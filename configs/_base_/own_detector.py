# Boxes of one's own, a detector's schedule in steps, and its runtime.
_base_ = [
    './datasets/own_coco_fixed_size.py', './schedules/frozen_steps.py',
    './detection_runtime.py'
]

default_hooks = dict(
    logger=dict(interval=20), checkpoint=dict(by_epoch=False))
log_processor = dict(by_epoch=False)
