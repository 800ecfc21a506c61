# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write configs from data, so that no text of the user's becomes code."""
from collections.abc import Sequence
from pathlib import Path

from .training_plan import TrainingPlan

_PACKAGE = Path(__file__).parents[1]
# Where the package's configs lie, relative to it: in a wheel or a clone.
_CONFIGS = '/.mim/configs' if (_PACKAGE / '.mim').is_dir() else '/../configs'
# mmengine puts the config's folder here, before it compiles the file.
_FOLDER = 'r"""{{ fileDirname }}/"""'
_DATA = """\
data_root = {folder}
classes = {classes}
data = dict(
    data_root=data_root,
    data_prefix=dict(img={images}),
    metainfo=dict(classes=classes))
val_evaluator = dict(ann_file=data_root + 'annotations/val.json')
test_evaluator = dict(ann_file=data_root + 'annotations/{test}.json')
"""
# By the rule of training_plan.py.
_FIXED_SIZE = """
# Typical images have {plan.native[0]} x {plan.native[1]} pixels. At this size,
# 19 of 20 boxes are at least {plan.small_box:.0f} pixels large.
size = {plan.scale}
resize = dict(
    type='Resize', scale=size, keep_ratio=True,
    interpolation={plan.interpolation!r})
train_dataloader = dict(num_workers={plan.workers}, dataset=dict(
    data, shrink_to=size, pipeline=[
        *_base_.train_pipeline[:2], resize, *_base_.train_pipeline[3:]]))
test_pipeline = [
    _base_.test_pipeline[0], resize, *_base_.test_pipeline[2:]]
val_dataloader = dict(dataset=dict(data, pipeline=test_pipeline))
test_dataloader = dict(dataset=dict(
    data, ann_file='annotations/{test}.json', pipeline=test_pipeline))

# Steps of 8 of {plan.images} images
train_cfg = dict(max_iters={plan.steps}, val_interval={plan.val_interval})
"""
_GFL = """
model = dict(bbox_head=dict(num_classes=len(classes)))
"""
_RETINANET = """
model = dict(bbox_head=dict(
    num_classes=len(classes),
    # The smallest anchors have sides of 8 pixels times this scale.
    anchor_generator=dict(octave_base_scale={plan.anchor_scale:g})))
"""
_MASK_RCNN = """
heads = dict(num_classes=len(classes))
model = dict(roi_head=dict(bbox_head=heads, mask_head=heads))
"""
_MF_DEC = """
train_dataloader = dict(dataset=data)
val_dataloader = dict(dataset=data)
test_dataloader = dict(
    dataset=dict(data, ann_file='annotations/{test}.json'))

model = dict(bbox_head=dict(num_classes=len(classes)))
"""
_FINETUNE = """\
_base_ = './boxes.py'

# The encoder learns, too, from augmented images, starting from the detector on
# the frozen encoder: --cfg-options load_from=WORK_FOLDER
default_hooks = dict(checkpoint_match=dict(required='boxes.py'))
model = dict(backbone=dict(frozen_stages=-1))
optim_wrapper = dict(optimizer=dict(lr=6e-4))
train_cfg = dict(
    max_iters=2 * _base_.train_cfg.max_iters,
    val_interval=2 * _base_.train_cfg.val_interval)

longer = max(_base_.size)
train_dataloader = dict(dataset=dict(
    # Large photographs are decoded once, at the largest scale.
    shrink_to=(3 * longer // 2, 3 * longer // 2),
    pipeline=[
        *_base_.train_pipeline[:2],
        dict(
            type='RandomResize', scale=_base_.size, ratio_range=(0.5, 1.5),
            keep_ratio=True, interpolation=_base_.resize.interpolation),
        dict(
            type='RandomCrop', crop_size=(longer, longer),
            allow_negative_crop=True),
        dict(type='PhotoMetricDistortion'),
        dict(type='RandomFlip', prob=0.5),
        dict(type='PackDetInputs')
    ]))
"""
#: Bases and settings of the detectors.
DETECTORS = {
    'gfl': ('gfl_mf-285m', _DATA + _FIXED_SIZE + _GFL),
    'retinanet': ('retinanet_mf-285m', _DATA + _FIXED_SIZE + _RETINANET),
    'mask-rcnn': ('mask-rcnn_mf-285m', _DATA + _FIXED_SIZE + _MASK_RCNN),
    'mf-dec': ('mf-dec-211_mf-285m', _DATA + _MF_DEC)}
_CLASSES = """\
data = dict(dataset=dict(data_root={folder}))
train_dataloader = data
val_dataloader = data
test_dataloader = dict(
    dataset=dict(data_root={folder}, data_prefix='{test}'))
"""


def write_boxes_config(file: Path, detector: str, classes: Sequence[str],
                       images: str, plan: TrainingPlan, test: str) -> None:
    """Write a detector's config.

    Args:
        file (Path): The config; annotations are in its folder.
        detector (str): Of :data:`DETECTORS`. MF-Dec keeps the size and length
            of its own config.
        classes (Sequence[str]): The classes, in their order.
        images (str): Folder of the images.
        plan (TrainingPlan): Size and length of training.
        test (str): The split to test on.
    """
    base, template = DETECTORS[detector]
    names = ', '.join(quote(name) for name in classes)
    body = template.format(
        folder=_FOLDER, classes=f'({names}, )', images=quote(images),
        test=test, plan=plan)
    _write(file, f'coco/{base}_own-data.py', body)


def write_finetuning_config(file: Path) -> None:
    """Write a config beside ``boxes.py`` that trains its whole detector."""
    file.write_text(_FINETUNE, 'utf-8')


def write_classes_config(file: Path, test: str) -> None:
    """Write a classifier's config beside the folders of the splits."""
    body = _CLASSES.format(folder=_FOLDER, test=test)
    _write(file, 'benchmarks/mf-285m_1xb16-tran1-coslr-30e_own-folders.py',
           body)


def quote(text: str) -> str:
    """Write a string as code, without braces, which mmengine replaces."""
    return repr(text).replace('{', r'\x7b').replace('}', r'\x7d')


def _write(file: Path, base: str, body: str) -> None:
    file.write_text(
        "_base_ = (__import__('qbheat_mm').__path__[0]\n"
        f"          + '{_CONFIGS}/qbheat/{base}')\n\n{body}", 'utf-8')
