# Copyright (c) QB-Heat MM authors. All rights reserved.
"""From an annotation tool's export to data and a config that train."""
import os
import os.path as osp
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mmengine.device import is_cuda_available

from ..errors import UserError
from .account import Account
from .cleaning import check_crowds, choose_classes, clean_boxes
from .coco_output import write_coco
from .configs import write_boxes_config, write_finetuning_config
from .files import ExportFiles
from .formats import read_boxes
from .images import match_files, open_images, place_boxes
from .lookup import ImageLookup
from .output_folder import drafted, require_new
from .records import ListedImage
from .report import Preparation, tabulate_boxes, title
from .split import assign_splits
from .training_plan import plan_training


def prepare_boxes(folder: str, out: str, *, detector: str = 'gfl',
                  classes: Sequence[str] | None = None,
                  drop_classes: Sequence[str] = (),
                  images: str | None = None, keep_crowds: bool | None = None,
                  boxes_on: str | None = None, val: float = 0.2,
                  seed: int = 0, copy: bool = False,
                  size: int | None = None) -> Preparation:
    """Prepare an annotation tool's export for training a detector.

    Writes ``annotations/{train,val,test}.json``, configs and a page. Each box
    is on the image and of the class that the export states, in its split; or
    the report counts why it is not.

    Args:
        folder (str): The export, or the file of it to read: COCO (Roboflow,
            CVAT, VGG Image Annotator, Label Studio, FiftyOne), YOLO, Pascal
            VOC or labelme.
        out (str): Folder to write to.
        detector (str): ``'gfl'``, ``'retinanet'``, ``'mask-rcnn'`` or
            ``'mf-dec'``.
        classes (Sequence[str], optional): Classes to use, in this order.
        drop_classes (Sequence[str]): Classes to skip.
        images (str, optional): Folder of the images, if it is another one.
        keep_crowds (bool, optional): Whether crowds (iscrowd=1) stay crowds.
            By default, they do unless the tool marks all masks as crowds.
        boxes_on (str, optional): Whether boxes are on images as EXIF rotates
            them, ``'upright'``, or on the ``'stored'`` pixels. By default,
            the tool or the sizes in the export must state it, if it matters.
        val (float): Share of images for validation, if the export has none.
        seed (int): Seed of this split.
        copy (bool): Whether to copy the images, which stay where they are.
        size (int, optional): Longer side in pixels that images are resized
            to. By default, it follows from the sizes of images and boxes.

    Returns:
        Preparation: The config, ``out/boxes.py``, and the report.

    Raises:
        UserError: If the export can be read in two ways, or a class would
            have no box for validation.
    """
    require_new(out, ('annotations', 'boxes.py', 'boxes_ft.py', 'report.html',
                      *(['images'] if copy else [])))
    account = Account()
    files = ExportFiles(folder, images, account)
    lookup = ImageLookup(files)
    export = read_boxes(lookup, classes or ())
    check_crowds(export, keep_crowds, account)
    names = choose_classes(export, classes, drop_classes, account)
    number = len(export.images)
    listed = match_files(export, lookup, account)
    splits = {image.split or 'train' for image in listed}
    listed = open_images(listed, account)
    place_boxes(listed, export, boxes_on, account)
    clean_boxes(listed, account)
    parts = assign_splits(listed, names, val, seed, account)
    _drop_unlabeled_test(parts, account)
    _require_boxes(parts, account)
    plan = plan_training(parts['train'], len(parts['val']),
                         is_cuda_available(), size)
    plan.note_tiny_boxes(account)
    headline = title(export.format, number, names, splits)
    root = osp.commonpath([files.image_root, *(i.file for i in listed)])
    with drafted(out) as draft:
        write_coco(draft, parts, names, root, detector == 'mask-rcnn',
                   account)
        tables = tabulate_boxes(parts, names, account)
        from .page import render_boxes  # loads matplotlib
        Path(draft, 'report.html').write_text(
            render_boxes(headline, tables, parts, names), 'utf-8')
        write_boxes_config(
            Path(draft, 'boxes.py'), detector, names,
            images='images/' if copy else osp.join(root, ''),
            plan=plan,
            test='test' if 'test' in parts else 'val')
        if detector != 'mf-dec':
            write_finetuning_config(Path(draft, 'boxes_ft.py'))
        if copy:
            _copy_images(listed, root, osp.join(draft, 'images'))
    return Preparation(osp.join(out, 'boxes.py'), headline, tables, account)


def _drop_unlabeled_test(parts: dict[str, Sequence[ListedImage]],
                         account: Account) -> None:
    """Skip test images if none of them has a box."""
    images = parts.get('test', ())
    if not any(image.boxes for image in images):
        for image in images:
            account.skip(image, 'of a test split without boxes')
        parts.pop('test', None)


def _require_boxes(parts: Mapping[str, Sequence[ListedImage]],
                   account: Account) -> None:
    for split, images in parts.items():
        if not any(image.boxes for image in images):
            reasons = f' ({account})' if account else ''
            raise UserError(
                f'none of the {len(images)} images for {split} (e.g. '
                f"'{images[0].file}') has a box: label some, or move all "
                f'elsewhere{reasons}')


def _copy_images(images: Iterable[ListedImage], root: str, target: str
                 ) -> None:
    for image in images:
        path = osp.join(target, osp.relpath(image.file, root))
        os.makedirs(osp.dirname(path), exist_ok=True)
        shutil.copyfile(image.file, path)
