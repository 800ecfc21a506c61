# Copyright (c) QB-Heat MM authors. All rights reserved.
"""From an annotation tool's export to data and a config that train."""
import os
import os.path as osp
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
from joblib import cpu_count

from ..datasets.images import ImageError, ImageFile
from ..errors import UserError
from ..utils.atomic_write import atomic_write
from .coco import CocoContent, read_coco
from .export import Account, Box, Export, Picture
from .files import Files, read_text
from .per_image import LabelmeContent, is_voc, read_labelme, read_voc
from .split import choose_validation, perceptual_hash
from .yolo import find_yolo, read_yolo

#: Config and model settings of the detectors.
DETECTORS = {
    'retinanet': ('retinanet_mf-285m', 'bbox_head=heads'),
    'mask-rcnn': ('mask-rcnn_mf-285m',
                  'roi_head=dict(bbox_head=heads, mask_head=heads)'),
    'mf-dec': ('mf-dec-211_mf-285m', 'bbox_head=heads')}
_CONFIG = """\
# {source}. Written by prepare_boxes.
_base_ = (__import__('qbheat_mm').__path__[0]
          + '{configs}/qbheat/coco/{base}_own-data.py')

data_root = '{{{{ fileDirname }}}}/'
classes = {classes}
data = dict(
    data_root=data_root,
    data_prefix=dict(img={images}),
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
_OTHERS = {
    '_via_img_metadata': 'a VGG Image Annotator project: export it with '
    'Annotation > Export Annotations (COCO format)',
    'file_upload': 'Label Studio JSON: export "COCO"',
    '<annotations>': '"CVAT for images": export "COCO 1.0"'}


@dataclass
class Prepared:
    """Prepared boxes.

    Attributes:
        config (str): The config to train.
        summary (str): What was found, written, put right and left out.
        left_out (dict[str, int]): Numbers of ``'images'`` and ``'boxes'``.
    """
    config: str
    summary: str
    left_out: dict[str, int]


def prepare_boxes(folder: str, out: str, *, detector: str = 'retinanet',
                  classes: Sequence[str] | None = None,
                  drop_classes: Sequence[str] = (),
                  images: str | None = None, keep_crowds: bool | None = None,
                  val: float = 0.2, seed: int = 0,
                  copy: bool = False) -> Prepared:
    """Prepare an annotation tool's export for training.

    Writes COCO files, a config and a page, ``report.html``.

    Args:
        folder (str): The export, or its only file to read: COCO (Roboflow,
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
        copy (bool): Copy the images; they stay where they are by default.

    Raises:
        UserError: If the export is ambiguous, or a class would have no box
            for validation.
    """
    config = osp.join(out, 'boxes.py')
    if osp.exists(config):
        raise UserError(f"'{config}' exists: delete it, or choose another "
                        '--out')
    account = Account()
    files = Files(folder, out, images, account)
    export = _read(files, account, classes, keep_crowds)
    found = sorted({each.split for each in export.pictures})
    source = (f'{export.source}: {len(export.pictures)} images, '
              f'{len(export.classes)} classes, '
              + (f'split into {", ".join(found)}' if len(found) > 1
                 else 'no split'))
    _choose_classes(export, classes, drop_classes, account)
    _keep_files(export, account)
    hashes = _inspect(export, 'val' not in found or len(found) < 2, account)
    _check_boxes(export.pictures)
    for picture in export.pictures:
        picture.boxes = [*_clean(picture, account)]
    _split(export, hashes, val, seed, account)
    return _write(export, source, out, files, detector, copy, account)


def _read(files: Files, account: Account, classes: Sequence[str] | None,
          keep_crowds: bool | None) -> Export:
    """Find out the format, and read it."""
    coco, labelme, others = {}, {}, []
    for path in files.find('.json'):
        text = read_text(path, account)
        for kind, contents in ((CocoContent, coco),
                               (LabelmeContent, labelme)):
            try:
                contents[path] = msgspec.json.decode(text, type=kind)
                break
            except msgspec.ValidationError:
                continue
            except msgspec.DecodeError as error:
                raise UserError(f"'{path}' is not JSON: {error}") from error
        else:
            others += [hint for mark, hint in _OTHERS.items() if mark in text]
    xml = files.find('.xml')
    if xml and not is_voc(xml[0], account):
        xml, others = [], [*others, _OTHERS['<annotations>']]
    yolo = find_yolo(files)
    kinds = [kind for kind in (coco, labelme, xml, yolo) if kind]
    if not kinds:
        raise UserError(f"'{files.only or files.root}' is no export that can "
                        f'be read: {"; ".join(others) or "found none"}')
    if len(kinds) > 1 or len(yolo) > 1:
        raise UserError(f"'{files.root}' has several exports: give one of "
                        + ', '.join(f"'{next(iter(kind))}'" for kind in kinds))
    if coco:
        return read_coco(coco, files, account, classes, keep_crowds)
    if labelme:
        return read_labelme(labelme, files, account)
    if xml:
        return read_voc(xml, files, account)
    (path, content), = yolo.items()
    return read_yolo(path, content, files, account)


def _choose_classes(export: Export, wanted: Sequence[str] | None,
                    dropped: Sequence[str], account: Account) -> None:
    """Leave out classes that are not wanted or have no box."""
    used = Counter(box.label for picture in export.pictures
                   for box in picture.boxes)
    for name in (*(wanted or ()), *dropped):
        if not used[name]:
            raise UserError(f'there is no box of class {name!r}: the export '
                            f'has {dict(used)}')
    unlisted = sorted(used.keys() - {*export.classes, *dropped})
    if unlisted and not wanted:
        raise UserError(
            f'{used[unlisted[0]]} boxes are of {unlisted[0]!r}, which the '
            'export does not list among its classes: leave them out with '
            f"--drop-class '{unlisted[0]}', or choose --classes")
    if not wanted:
        for name in export.classes:
            if not used[name]:
                account.note('classes left out', 'without a box', name)
    export.classes = [name for name in wanted or export.classes
                      if used[name] and name not in dropped]
    for picture in export.pictures:
        boxes, picture.boxes = picture.boxes, []
        for box in boxes:
            if box.label in export.classes:
                picture.boxes.append(box)
            else:
                account.note('boxes left out', f'of class {box.label!r}',
                             picture.file)


def _keep_files(export: Export, account: Account) -> None:
    """Leave out images without a file; merge those listed twice."""
    pictures, missing = {}, []
    for picture in sorted(export.pictures, key=lambda each: each.file):
        if not picture.found:
            missing.append(picture)
            _leave_out(picture, 'whose file is missing', account)
            continue
        first = pictures.setdefault((picture.file, picture.split), picture)
        if first is not picture:
            first.boxes += picture.boxes
            account.put_right('images listed twice', picture.file)
    if 2 * len(missing) > len(export.pictures):
        raise UserError(
            f'{len(missing)} of {len(export.pictures)} images are missing '
            f"(e.g. '{missing[0].file}'): give their folder with --images")
    export.pictures = [*pictures.values()]
    repeated = len(pictures) - len({file for file, _ in pictures})
    account.note('images in several splits', 'as in the export', '', repeated)


def _leave_out(picture: Picture, why: str, account: Account) -> None:
    account.note('images left out', why, picture.file)
    account.note('boxes left out', 'of images that are left out',
                 picture.file, len(picture.boxes))


def _inspect(export: Export, hashing: bool,
             account: Account) -> np.ndarray | None:
    """Open every image; check its size; return the perceptual hashes."""
    def look(picture: Picture) -> ImageError | tuple:
        try:
            image = ImageFile(picture.file)
            return image.shape[::-1], hashing and perceptual_hash(image)
        except ImageError as error:
            return error

    with ThreadPoolExecutor(cpu_count()) as pool:
        results = [*pool.map(look, export.pictures)]
    pictures, hashes, wrong = [], [], []
    for picture, result in zip(export.pictures, results):
        if isinstance(result, ImageError):
            _leave_out(picture, f'that cannot be read ({result})', account)
            continue
        if picture.size not in (None, result[0]):
            wrong.append(picture)
        picture.size = result[0]
        pictures.append(picture)
        hashes.append(result[1])
    if wrong:
        raise UserError(
            f'{len(wrong)} of {len(results)} images have another size than '
            f"the export says (e.g. '{wrong[0].file}'): give the annotated "
            'images with --images')
    export.pictures = pictures
    return np.array(hashes) if hashing else None


def _check_boxes(pictures: Sequence[Picture]) -> None:
    """Refuse boxes that are not (x, y, width, height) in pixels."""
    rows = np.array([(*box.bbox, *picture.size) for picture in pictures
                     if not picture.fractions for box in picture.boxes])
    if not len(rows):
        return
    past = (rows[:, :2] + rows[:, 2:4] > 1.02 * rows[:, 4:] + 1).any(1)
    if past.mean() > 0.2:
        raise UserError(
            f'{past.sum()} of {len(past)} boxes (e.g. '
            f'{rows[past.argmax(), :4].tolist()}) exceed their image: write '
            'x, y, width and height in pixels, not corners, or give the '
            'annotated images with --images')


def _clean(picture: Picture, account: Account) -> Iterator[Box]:
    """Yield boxes that can be learned, clipped to the image."""
    width, height = picture.size
    seen = set()
    for box in picture.boxes:
        if picture.fractions:
            _scale(box, width, height)
        x, y, w, h = box.bbox
        left, top = max(x, 0), max(y, 0)
        right, bottom = min(x + w, width), min(y + h, height)
        key = (box.label, left, top, right, bottom)
        why = ('of negative size' if w < 0 or h < 0 else
               'outside of their image'
               if min(x + w, y + h) < 0 or x > width or y > height else
               'thinner than a pixel'
               if right - left < 1 or bottom - top < 1 else
               'that repeat another' if key in seen else '')
        if why:
            account.note('boxes left out', why, f'{box.bbox} in '
                         f"'{picture.file}'")
            continue
        seen.add(key)
        # Rounding errors of fractions don't count.
        if max(left - x, top - y, x + w - right, y + h - bottom) > 0.01:
            account.put_right('boxes that reached beyond their image',
                              picture.file)
        box.bbox = [left, top, right - left, bottom - top]
        yield box


def _scale(box: Box, width: int, height: int) -> None:
    """Convert fractions to pixels."""
    x, y, w, h = box.bbox
    box.bbox = [x * width, y * height, w * width, h * height]
    box.segmentation = box.segmentation and [
        [value * (height if i % 2 else width)
         for i, value in enumerate(points)] for points in box.segmentation]


def _split(export: Export, hashes: np.ndarray | None, val: float, seed: int,
           account: Account) -> None:
    """Split for validation, unless the export has a split."""
    pictures = export.pictures
    if len({picture.split for picture in pictures}) == 1:
        for picture in pictures:
            picture.split = 'train'
    for picture in pictures:
        picture.split = picture.split or 'train'
    if not any(picture.split == 'val' for picture in pictures):
        rows = [i for i, each in enumerate(pictures)
                if each.split == 'train']
        counts = np.zeros((len(rows), len(export.classes)), int)
        for row, i in enumerate(rows):
            for box in pictures[i].boxes:
                counts[row, export.classes.index(box.label)] += not box.crowd
        chosen = choose_validation(
            [pictures[i].file for i in rows], hashes[rows], counts,
            export.classes, val, seed, account)
        for i in np.array(rows)[chosen]:
            pictures[i].split = 'val'
    for name in export.classes:
        if not any(box.label == name for picture in pictures
                   if picture.split == 'val' for box in picture.boxes):
            account.note('classes without a validation box',
                         'in the split of the export', name)


def _write(export: Export, source: str, out: str, files: Files,
           detector: str, copy: bool, account: Account) -> Prepared:
    """Write annotations, config and page; describe them."""
    parts = {split: [picture for picture in export.pictures
                     if picture.split == split]
             for split in ('train', 'val', 'test')}
    if not any(picture.boxes for picture in parts['test']):
        for picture in parts.pop('test'):
            _leave_out(picture, 'of a test split without boxes', account)
    _check_masks(export.pictures, detector, account)
    for split, pictures in parts.items():
        path = osp.join(out, f'annotations/{split}.json')
        with atomic_write(path) as part:
            Path(part).write_bytes(_encode(pictures, export.classes,
                                           files.image_root))
    if copy:
        for picture in export.pictures:
            target = osp.join(out, 'images', osp.relpath(
                picture.file, files.image_root))
            os.makedirs(osp.dirname(target), exist_ok=True)
            shutil.copyfile(picture.file, target)
    base, heads = DETECTORS[detector]
    package = Path(__file__).parents[1]
    config = osp.join(out, 'boxes.py')
    with atomic_write(config) as part:
        Path(part).write_text(_CONFIG.format(
            source=source, base=base, heads=heads, classes=export.classes,
            configs='/.mim/configs' if (package / '.mim').is_dir()
            else '/../configs', test='test' if 'test' in parts else 'val',
            images=repr('images/' if copy else files.image_root + '/')))
    summary, tables = _summarize(parts, export.classes, source, account)
    from .page import tell_boxes  # loads matplotlib
    with atomic_write(osp.join(out, 'report.html')) as part:
        Path(part).write_text(tell_boxes(
            source, tables, export.pictures, export.classes), 'utf-8')
    return Prepared(config, summary, {
        each: account.total(f'{each} left out')
        for each in ('images', 'boxes')})


def _check_masks(pictures: Sequence[Picture], detector: str,
                 account: Account) -> None:
    """Drop polygons that only some objects have, unless they are needed."""
    boxes = [box for picture in pictures for box in picture.boxes]
    bare = sum(not box.segmentation for box in boxes)
    if detector != 'mask-rcnn':
        for box in boxes if bare else ():
            box.segmentation = None
    elif 2 * bare > len(boxes):
        raise UserError(f'{bare} of {len(boxes)} objects have no mask: choose '
                        '--detector retinanet')
    else:
        account.note('objects without a mask', 'become crowds', '', bare)


def _encode(pictures: Sequence[Picture], classes: Sequence[str],
            root: str) -> bytes:
    """Write images in COCO format."""
    labels = {name: i for i, name in enumerate(classes, 1)}
    boxes = []
    for i, picture in enumerate(pictures, 1):
        for box in picture.boxes:
            area = box.bbox[2] * box.bbox[3]
            boxes.append(dict(
                id=len(boxes) + 1, image_id=i, category_id=labels[box.label],
                bbox=box.bbox, area=area, iscrowd=int(box.crowd),
                **({'segmentation': box.segmentation} if box.segmentation
                   else {})))
    return msgspec.json.encode(dict(
        images=[dict(id=i, file_name=osp.relpath(each.file, root),
                     width=each.size[0], height=each.size[1])
                for i, each in enumerate(pictures, 1)],
        annotations=boxes, categories=[
            dict(id=i, name=name) for name, i in labels.items()]))


def _summarize(parts: dict[str, list[Picture]], classes: Sequence[str],
               source: str, account: Account) -> tuple[str, list]:
    """Account for all images and boxes."""
    from ..analysis.report import Table  # loads matplotlib
    boxes = Table('boxes', ['class', *parts, 'small', 'medium', 'large'])
    for name in classes:
        rows = {split: [box for picture in pictures for box in picture.boxes
                        if box.label == name]
                for split, pictures in parts.items()}
        sizes = np.digitize([(box.bbox[2] * box.bbox[3])**0.5
                             for each in rows.values() for box in each],
                            [32, 96])
        boxes.rows.append([name, *map(len, rows.values()), *np.bincount(
            sizes, minlength=3).tolist()])
    total = Table('total', ['', 'in', 'out', 'left out', *parts])
    for what in ('images', 'boxes'):
        numbers = [len(pictures) if what == 'images' else sum(
            len(picture.boxes) for picture in pictures)
            for pictures in parts.values()]
        left = account.total(f'{what} left out')
        total.rows.append([what, sum(numbers) + left, sum(numbers), left,
                           *numbers])
    notes = Table('notes', ['', 'number', '', 'e.g.'], [
        [*row] for row in account.rows()])
    return '\n\n'.join(map(str, (source, total, boxes, notes))), [
        total, boxes, notes]
