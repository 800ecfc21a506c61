# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write configs from data, so that no text of the user's becomes code."""
from collections.abc import Sequence
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
# Where the package's configs lie, relative to it: in a wheel or a clone.
_CONFIGS = '/.mim/configs' if (_PACKAGE / '.mim').is_dir() else '/../configs'
# mmengine puts the config's folder here, before it compiles the file.
_FOLDER = 'r"""{{ fileDirname }}/"""'
#: Below, 24 epochs of batches of 16 are fewer than 1,500 steps.
FEW_IMAGES = 1000
#: Config and model settings of the detectors.
DETECTORS = {
    'retinanet': ('retinanet_mf-285m', 'bbox_head=heads'),
    'mask-rcnn': ('mask-rcnn_mf-285m',
                  'roi_head=dict(bbox_head=heads, mask_head=heads)'),
    'mf-dec': ('mf-dec-211_mf-285m', 'bbox_head=heads')}
_BOXES = """\
data_root = {folder}
classes = {classes}
data = dict(
    data_root=data_root,
    data_prefix=dict(img={images}),
    metainfo=dict(classes=classes))
train_dataloader = dict(batch_size={batch}, dataset=data)
auto_scale_lr = dict(enable=True)  # rates are for batches of 16
val_dataloader = dict(dataset=data)
test_dataloader = dict(
    dataset=dict(data, ann_file='annotations/{test}.json'))
val_evaluator = dict(ann_file=data_root + 'annotations/val.json')
test_evaluator = dict(ann_file=data_root + 'annotations/{test}.json')

heads = dict(num_classes=len(classes))
model = dict({heads})
"""
_CLASSES = """\
data = dict(dataset=dict(data_root={folder}))
train_dataloader = data
val_dataloader = data
test_dataloader = dict(
    dataset=dict(data_root={folder}, data_prefix='{test}'))
"""


def write_boxes_config(file: Path, detector: str, classes: Sequence[str],
                       images: str, number: int, test: str) -> None:
    """Write a detector's config.

    Args:
        file (Path): The config; annotations are in its folder.
        detector (str): Of :data:`DETECTORS`.
        classes (Sequence[str]): The classes, in their order.
        images (str): Folder of the images.
        number (int): Of training images. Few have smaller batches, which
            leave time for more steps.
        test (str): The split to test on.
    """
    base, heads = DETECTORS[detector]
    names = ', '.join(quote(name) for name in classes)
    body = _BOXES.format(folder=_FOLDER, classes=f'({names}, )', test=test,
                         images=quote(images), heads=heads,
                         batch=4 if number < FEW_IMAGES else 16)
    _write(file, f'coco/{base}_own-data.py', body)


def write_classes_config(file: Path, test: str) -> None:
    """Write a classifier's config, whose folder has those of the classes."""
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
