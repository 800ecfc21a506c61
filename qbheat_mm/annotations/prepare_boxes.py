# Copyright (c) QB-Heat MM authors. All rights reserved.
"""From an annotation tool's export to data and a config that train."""
import os
import os.path as osp
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import numpy as np
from joblib import cpu_count

from ..datasets.images import ImageError, ImageFile
from ..errors import UserError
from ..utils.atomic_write import atomic_write
from .coco import CocoContent, read_coco
from .export import Account, Box, Files, Picture
from .others import (
    LabelmeContent,
    find_yolo,
    read_labelme,
    read_voc,
    read_yolo,
)
from .split import choose_validation, perceptual_hash

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
    config = osp.join(out, 'boxes.py')
    if osp.exists(config):
        raise UserError(f"'{config}' exists: delete it, or choose another "
                        '--out')
    account = Account()
    files = Files(folder, out, images, account)
    tool, pictures, names = _read(files, classes, keep_crowds)
    splits = sorted({each.split for each in pictures} - {'none'})
    names = _choose_classes(pictures, names, classes, drop_classes, account)
    title = (f'{tool}: {len(pictures)} images, {len(names)} '
             f'class{"es" * (len(names) != 1)}, '
             + ('no split' if len(splits) == 1 else
                f'split into {", ".join(splits)}'))
    pictures = _find_images(pictures, files)
    pictures, hashes = _open_images(pictures, 'val' not in splits or len(
        splits) == 1, account)
    _check_boxes(pictures)
    for picture in pictures:
        picture.boxes = [*_clean(picture, account)]
    if not any(picture.boxes for picture in pictures):
        raise UserError(f"'{folder}' has no box that can be learned: "
                        f'{dict(account)}')
    if hashes is not None:
        _split(pictures, hashes, names, val, seed, account)
    parts = {split: [each for each in pictures
                     if (each.split or 'train') == split]
             for split in ('train', 'val', 'test')}
    if not parts['train']:
        raise UserError(f"'{folder}' has only images for {splits}: give the "
                        'training images as well')
    for split in ('train', 'val'):
        held = {box.label for each in parts[split] for box in each.boxes}
        for name in {*names} - held:
            account.note('classes without boxes', f'in {split}, as in the '
                         'export', name)
    if not any(each.boxes for each in parts['test']):
        for each in parts.pop('test'):
            _leave_out(each, 'of a test split without boxes', account)
    masks = detector == 'mask-rcnn'
    bare = [not box.mask for each in pictures for box in each.boxes]
    if masks and 2 * sum(bare) > len(bare):
        raise UserError(f'{sum(bare)} of {len(bare)} objects have no mask: '
                        'choose --detector retinanet')
    account.note('objects without a mask', 'ignored', '', masks * sum(bare))
    for split, some in parts.items():
        with atomic_write(osp.join(out, f'annotations/{split}.json')) as part:
            Path(part).write_bytes(_encode(some, names, masks, files))
    for each in pictures if copy else ():
        target = osp.join(out, 'images', osp.relpath(each.file,
                                                     files.image_root))
        os.makedirs(osp.dirname(target), exist_ok=True)
        shutil.copyfile(each.file, target)
    from .page import summarize, tell_boxes  # loads matplotlib
    tables = summarize(parts, names, account)
    with atomic_write(osp.join(out, 'report.html')) as part:
        Path(part).write_text(tell_boxes(title, tables, pictures, names),
                              'utf-8')
    base, heads = DETECTORS[detector]
    with atomic_write(config) as part:
        Path(part).write_text(_CONFIG.format(
            title=title, base=base, heads=heads, classes=tuple(names),
            configs=PACKAGE_CONFIGS, test='test' if 'test' in parts else 'val',
            images='images/' if copy else files.image_root + '/'), 'utf-8')
    print('\n\n'.join(map(str, (title, *tables))))
    return config


def _read(files: Files, classes: Sequence[str] | None,
          keep_crowds: bool | None) -> tuple[str, list[Picture], list[str]]:
    """Find out the format, and read it."""
    coco, labelme = {}, {}
    for path in files.find('.json'):
        text = files.read(path)
        for kind, contents in ((CocoContent, coco),
                               (LabelmeContent, labelme)):
            try:
                contents[path] = msgspec.json.decode(text, type=kind)
                break
            except msgspec.ValidationError:
                continue
            except msgspec.DecodeError as error:
                raise UserError(f"'{path}' is not JSON: {error}") from error
    yolo, xml = find_yolo(files), files.find('.xml')
    kinds = [kind for kind in (coco, labelme, yolo, xml) if kind]
    if not kinds:
        raise UserError(f"'{files.only or files.root}' holds no COCO, YOLO, "
                        'Pascal VOC or labelme files: export one of these')
    if len(kinds) > 1 or len(yolo) > 1:
        found = [*coco, *yolo, *{osp.dirname(each) for each in (*labelme,
                                                                *xml)}]
        raise UserError(f"'{files.root}' holds several exports: give the one "
                        f'to read, {" or ".join(map(repr, found[:4]))}')
    if coco:
        return read_coco(coco, files, classes, keep_crowds)
    if labelme:
        return read_labelme(labelme, files)
    if xml:
        return read_voc(xml, files)
    return read_yolo(*yolo.popitem(), files)


def _choose_classes(pictures: Sequence[Picture], names: Sequence[str],
                    wanted: Sequence[str] | None, dropped: Sequence[str],
                    account: Account) -> list[str]:
    """Leave out boxes of other classes; return those with a box."""
    used = Counter(box.label for picture in pictures for box in picture.boxes)
    for name in (*(wanted or ()), *dropped):
        if not used[name]:
            raise UserError(f'no box is of class {name!r}: the export has '
                            f'{dict(used)}')
    unlisted = sorted(used.keys() - {*names, *dropped})
    if unlisted and not wanted:
        example = next(each.source for each in pictures for box in each.boxes
                       if box.label == unlisted[0])
        raise UserError(
            f"{used[unlisted[0]]} boxes in '{example}' are of {unlisted[0]!r},"
            ' not one of the classes: leave them out with --drop-class '
            f"'{unlisted[0]}', or choose --classes")
    for name in () if wanted else names:
        if not used[name]:
            account.note('classes left out', 'without a box', name)
    chosen = [name for name in wanted or names
              if used[name] and name not in dropped]
    for picture in pictures:
        for box in picture.boxes:
            if box.label not in chosen:
                account.note('boxes left out', f'of class {box.label!r}',
                             picture.name)
        picture.boxes = [box for box in picture.boxes if box.label in chosen]
    return chosen


def _leave_out(picture: Picture, why: str, account: Account,
               example: object = '') -> None:
    account.note('images left out', why, example or picture.name)
    account.note('boxes left out', 'of images that are left out',
                 picture.name, len(picture.boxes))


def _find_images(pictures: Sequence[Picture], files: Files) -> list[Picture]:
    """Find the files; merge images that are listed twice."""
    found, missing = {}, []
    for picture in pictures:
        if picture.split == 'none':
            _leave_out(picture, 'in no list of the export', files.account)
            continue
        picture.file = files.locate(picture.name, picture.source)
        if not picture.file:
            missing.append(picture.name)
            _leave_out(picture, 'whose file is missing', files.account)
            continue
        first = found.setdefault((picture.file, picture.split), picture)
        if first is not picture:
            if first.name != picture.name:
                raise UserError(
                    f"'{first.name}' and '{picture.name}' may both be "
                    f"'{picture.file}': give the right folder with --images")
            first.boxes += picture.boxes
            files.account.put_right('images listed twice', picture.name)
    if 2 * len(missing) > len(pictures):
        raise UserError(f'{len(missing)} of {len(pictures)} images are missing'
                        f" (e.g. '{missing[0]}'): give their folder with "
                        '--images')
    paths = Counter(file for file, _ in found)
    files.account.note('images in several splits', 'as in the export', '',
                       len(found) - len(paths))
    for file in {*files.images} - {*paths}:
        files.account.note('files left out', 'that the export does not list',
                           file)
    return sorted(found.values(), key=lambda each: each.file)


def _open_images(pictures: Sequence[Picture], hashing: bool, account: Account
                 ) -> tuple[list[Picture], np.ndarray | None]:
    """Check the images and their sizes; hash them for the split."""
    def look(picture: Picture) -> ImageError | tuple:
        try:
            image = ImageFile(picture.file)
            return image.shape[::-1], hashing and perceptual_hash(image)
        except ImageError as error:
            return error

    with ThreadPoolExecutor(cpu_count()) as pool:
        results = [*pool.map(look, pictures)]
    good, hashes, wrong = [], [], []
    for picture, result in zip(pictures, results):
        if isinstance(result, ImageError):
            _leave_out(picture, 'that cannot be read', account, result)
            continue
        if picture.size not in (None, result[0]):
            wrong.append(f"'{picture.file}' has {result[0]}, the export says "
                         f'{picture.size}')
        picture.size = result[0]
        good.append(picture)
        hashes.append(result[1])
    if wrong:
        raise UserError(f'{len(wrong)} of {len(pictures)} images have another '
                        f'size (e.g. {wrong[0]}): give the images that were '
                        'annotated with --images')
    return good, np.array(hashes) if hashing else None


def _check_boxes(pictures: Sequence[Picture]) -> None:
    """Refuse corners, which exceed the image as sizes, and fractions."""
    rows = np.array([(*box.bbox, *picture.size) for picture in pictures
                     if not picture.fractions for box in picture.boxes]
                    or np.zeros((1, 6)))
    past = (rows[:, :2] + rows[:, 2:4] > 1.02 * rows[:, 4:] + 1).any(1)
    larger = (rows[:, 2:4] > rows[:, :2]).all()
    past |= 0 < rows[:, :4].max() <= 1
    if past.mean() > (0.2 if larger else 0.5):
        raise UserError(
            f'{past.sum()} of {len(past)} boxes (e.g. '
            f'{rows[past.argmax(), :4].tolist()}) do not fit: write x, y, '
            'width and height in pixels, not corners or fractions')


def _clean(picture: Picture, account: Account) -> Iterator[Box]:
    """Yield boxes that can be learned, in pixels, clipped to the image."""
    width, height = picture.size
    seen = set()
    for box in picture.boxes:
        if picture.fractions:
            scale = (width, height)
            box.bbox = [x * scale[i % 2] for i, x in enumerate(box.bbox)]
            box.mask = box.mask and [
                [x * scale[i % 2] for i, x in enumerate(points)]
                for points in box.mask]
        x, y, w, h = box.bbox
        left, top = max(x, 0), max(y, 0)
        right, bottom = min(x + w, width), min(y + h, height)
        clipped = [left, top, right - left, bottom - top]
        key = (box.label, *clipped)
        why = ('that repeat another' if key in seen else
               'thinner than a pixel' if 0 <= min(w, h) < 1 else
               'of negative size' if min(w, h) < 0 else
               'outside of their image' if min(clipped[2:]) < 1 else '')
        if why:
            account.note('boxes left out', why,
                         f"{box.bbox} in '{picture.file}'")
            continue
        # Fractions have rounding errors.
        if max(abs(a - b) for a, b in zip(clipped, box.bbox)) > 0.01:
            account.put_right('boxes that reached beyond their image',
                              picture.file)
        seen.add(key)
        box.bbox = clipped
        yield box


def _split(pictures: Sequence[Picture], hashes: np.ndarray,
           names: Sequence[str], val: float, seed: int,
           account: Account) -> None:
    """Choose images for validation among those that are not for testing."""
    several = len({picture.split for picture in pictures}) > 1
    rows = [i for i, picture in enumerate(pictures)
            if not several or picture.split != 'test']
    counts = np.zeros((len(rows), len(names)), int)
    for row, i in enumerate(rows):
        for box in pictures[i].boxes:
            counts[row, names.index(box.label)] += not box.crowd
    chosen, kept = choose_validation([pictures[i].file for i in rows],
                                     hashes[rows], counts, names, val, seed)
    for i, held in zip(rows, chosen):
        pictures[i].split = 'val' if held else 'train'
    account.note('images chosen for validation', kept, '', int(chosen.sum()))


def _encode(pictures: Sequence[Picture], names: Sequence[str], masks: bool,
            files: Files) -> bytes:
    """Write images in COCO format."""
    boxes = [(i, box) for i, picture in enumerate(pictures, 1)
             for box in picture.boxes]
    return msgspec.json.encode(dict(
        images=[dict(id=i, file_name=osp.relpath(each.file, files.image_root),
                     width=each.size[0], height=each.size[1])
                for i, each in enumerate(pictures, 1)],
        categories=[dict(id=i, name=name) for i, name in enumerate(names, 1)],
        annotations=[dict(
            id=number, image_id=i, category_id=names.index(box.label) + 1,
            bbox=box.bbox, area=box.bbox[2] * box.bbox[3],
            iscrowd=int(box.crowd),
            **(dict(segmentation=box.mask or []) if masks else {}))
            for number, (i, box) in enumerate(boxes, 1)]))
