# Copyright (c) QB-Heat MM authors. All rights reserved.
"""From an annotation tool's export to data and a config that train."""
import os
import os.path as osp
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np

from ..datasets.coco_check import load_coco
from ..errors import UserError
from . import cleaning, coco, others
from .export import Account, Files, Picture, reading
from .split import choose_validation

_PACKAGE = Path(__file__).parents[1]
#: Where the package's configs lie, relative to it: in a wheel or a clone.
PACKAGE_CONFIGS = ('/.mim/configs' if (_PACKAGE / '.mim').is_dir()
                   else '/../configs')
#: Config and model settings of the detectors.
DETECTORS = {
    'retinanet': ('retinanet_mf-285m', 'bbox_head=heads'),
    'mask-rcnn': ('mask-rcnn_mf-285m',
                  'roi_head=dict(bbox_head=heads, mask_head=heads)'),
    'mf-dec': ('mf-dec-211_mf-285m', 'bbox_head=heads')}
_KEYS = {coco.CocoContent: {'images', 'categories', 'annotations'},
         others.LabelmeContent: {'shapes', 'imagePath'}}
_CONFIG = """\
# {title}
_base_ = (__import__('qbheat_mm').__path__[0]
          + '{configs}/qbheat/coco/{base}_own-data.py')

data_root = '{{{{ fileDirname }}}}/'
classes = {classes}
data = dict(
    data_root=data_root,
    data_prefix=dict(img={images!r}),
    metainfo=dict(classes=classes))
train_dataloader = dict(dataset=data)
val_dataloader = dict(dataset=data)
test_dataloader = dict(
    dataset=dict(data, ann_file='annotations/{test}.json'))
val_evaluator = dict(ann_file=data_root + 'annotations/val.json')
test_evaluator = dict(ann_file=data_root + 'annotations/{test}.json')

heads = dict(num_classes=len(classes))
model = dict({heads})
"""


def prepare_boxes(folder: str, out: str, *, detector: str = 'retinanet',
                  classes: Sequence[str] | None = None,
                  drop_classes: Sequence[str] = (),
                  images: str | None = None, keep_crowds: bool | None = None,
                  val: float = 0.2, seed: int = 0, copy: bool = False) -> str:
    """Prepare an annotation tool's export for training a detector.

    Writes ``annotations/{train,val,test}.json``, a config and a page, and
    prints what was put right and left out.

    Args:
        folder (str): The export, or the file of it to read: COCO (Roboflow,
            CVAT, VGG Image Annotator, Label Studio, FiftyOne), YOLO, Pascal
            VOC or labelme.
        out (str): Folder to write to.
        detector (str): ``'retinanet'``, ``'mask-rcnn'`` or ``'mf-dec'``.
        classes (Sequence[str], optional): Classes to use, in this order.
        drop_classes (Sequence[str]): Classes to leave out.
        images (str, optional): Folder of the images, if it is another one.
        keep_crowds (bool, optional): Whether crowds (iscrowd=1) stay crowds.
            By default, they do unless the tool marks all masks as crowds.
        val (float): Share of images for validation, if the export has none.
        seed (int): Seed of this split.
        copy (bool): Whether to copy the images, which stay where they are.

    Returns:
        str: The config, ``out/boxes.py``.

    Raises:
        UserError: If the export is ambiguous, or a class would have no box
            for validation.
    """
    for name in ('annotations', 'boxes.py'):
        if osp.exists(osp.join(out, name)):
            raise UserError(f"'{osp.join(out, name)}' exists: choose another "
                            '--out')
    account = Account()
    files = Files(folder, images, account)
    tool, pictures, names = _read(files, classes)
    cleaning.check_crowds(pictures, tool, keep_crowds, account)
    names = cleaning.choose_classes(pictures, names, classes, drop_classes,
                                    account)
    splits = sorted({each.split or 'train' for each in pictures})
    title = (f'{tool}: {len(pictures)} images, {len(names)} '
             f'class{"es" * (len(names) > 1)}, '
             + ('split into ' + ', '.join(splits) if splits[1:] else
                'no split'))
    pictures = cleaning.find_images(pictures, files)
    pictures = cleaning.open_images(pictures, account)
    cleaning.clean_boxes(pictures, account)
    parts = _split(pictures, names, val, seed, account)
    with TemporaryDirectory() as part:
        draft = osp.join(part, 'out')
        _write(draft, parts, names, detector == 'mask-rcnn', files)
        from .page import summarize, tell_boxes  # loads matplotlib
        tables = summarize(parts, names, account)
        Path(draft, 'report.html').write_text(
            tell_boxes(title, tables, pictures, names), 'utf-8')
        base, heads = DETECTORS[detector]
        Path(draft, 'boxes.py').write_text(_CONFIG.format(
            title=title, base=base, heads=heads, classes=tuple(names),
            configs=PACKAGE_CONFIGS, test='test' if 'test' in parts else 'val',
            images='images/' if copy else files.image_root + '/'), 'utf-8')
        for each in pictures if copy else ():
            target = osp.join(out, 'images', osp.relpath(each.file,
                                                         files.image_root))
            os.makedirs(osp.dirname(target), exist_ok=True)
            shutil.copyfile(each.file, target)
        shutil.copytree(draft, out, dirs_exist_ok=True)
    print('\n\n'.join(map(str, (title, *tables))))
    return osp.join(out, 'boxes.py')


def _read(files: Files, classes: Sequence[str] | None
          ) -> tuple[str, list[Picture], list[str] | None]:
    """Find out the format, and read it."""
    found = {kind: {} for kind in (*_KEYS, type(None))}
    for path in files.find('.json'):
        with reading(path):
            content = _decode(path, files)
        found[type(content)][path] = content
    readers = [(partial(coco.read_coco, wanted=classes or ()),
                found[coco.CocoContent]),
               (others.read_labelme, found[others.LabelmeContent]),
               (others.read_voc, others.find_voc(files)),
               *((others.read_yolo, {path: content})
                 for path, content in others.find_yolo(files).items())]
    readers = [(read, content) for read, content in readers if content]
    if not readers:
        raise UserError(f"'{files.only or files.root}' holds no COCO, YOLO "
                        '(data.yaml or classes.txt), Pascal VOC or labelme '
                        'files: export one of these, and unpack it')
    if len(readers) > 1:
        raise UserError(f"'{files.root}' holds several exports: give the one "
                        'to read, ' + ' or '.join(
                            repr(next(iter(each))) for _, each in readers))
    (read, content), = readers
    return read(content, files)


def _decode(path: str, files: Files) -> msgspec.Struct | None:
    """Read a JSON file, with numbers as text if there is no other way."""
    text = files.read(path)
    try:
        keys = msgspec.json.decode(text, type=dict[str, msgspec.Raw]).keys()
    except msgspec.ValidationError:  # not an object
        return None
    kind = next((kind for kind, needed in _KEYS.items() if needed <= keys),
                None)
    try:
        return kind and msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        files.account.put_right('files with numbers written as text',
                                f"'{path}': {error}")
        return msgspec.json.decode(text, type=kind, strict=False)


def _split(pictures: Sequence[Picture], names: Sequence[str], val: float,
           seed: int, account: Account) -> dict[str, list[Picture]]:
    """Choose validation images if there are none; return the parts."""
    splits = {picture.split for picture in pictures}
    if len(splits) == 1 or 'val' not in splits:
        some = [each for each in pictures
                if len(splits) == 1 or each.split != 'test']
        counts = [Counter(box.label for box in each.boxes if not box.crowd)
                  for each in some]
        chosen, kept = choose_validation(
            [each.file for each in some],
            np.array([each.hash for each in some]),
            np.array([[each[name] for name in names] for each in counts]),
            names, val, seed)
        for each, held in zip(some, chosen):
            each.split = 'val' if held else 'train'
        account.note('images chosen for validation', kept, '',
                     int(chosen.sum()))
    parts = {split: [each for each in pictures
                     if (each.split or 'train') == split]
             for split in ('train', 'val', 'test')}
    if not parts['train']:
        raise UserError(f'the export has only images for {sorted(splits)}: '
                        'give the training images as well')
    if not any(each.boxes for each in parts['test']):
        for each in parts.pop('test'):
            account.leave_out(each, 'of a test split without boxes')
    return parts


def _write(folder: str, parts: Mapping[str, Sequence[Picture]],
           names: Sequence[str], masks: bool, files: Files) -> None:
    """Write COCO files, and read them as training does."""
    os.makedirs(osp.join(folder, 'annotations'))
    for split, pictures in parts.items():
        boxes = [(i, box) for i, picture in enumerate(pictures, 1)
                 for box in picture.boxes]
        content = dict(
            images=[dict(
                id=i, file_name=osp.relpath(each.file, files.image_root),
                width=each.size[0], height=each.size[1])
                for i, each in enumerate(pictures, 1)],
            categories=[dict(id=i, name=name)
                        for i, name in enumerate(names, 1)],
            annotations=[dict(
                id=number, image_id=i, category_id=names.index(box.label) + 1,
                bbox=box.bbox, area=box.bbox[2] * box.bbox[3],
                iscrowd=int(box.crowd),
                **(dict(segmentation=box.mask or []) if masks else {}))
                for number, (i, box) in enumerate(boxes, 1)])
        name = f'annotations/{split}.json'
        Path(folder, name).write_bytes(msgspec.json.encode(content))
        _, report = load_coco(osp.join(folder, name), names,
                              require_masks=masks, name=name)
        for warning in report.warnings:
            files.account.note('warnings', f'{split}: {warning}')
