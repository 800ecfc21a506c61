# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Count the images, classes and boxes of a config's data, and check them."""
import argparse
import os
import os.path as osp
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from mmengine.config import Config
from mmengine.registry import DATASETS, init_default_scope
from mmengine.utils import track_iter_progress
from PIL import Image

from qbheat_mm.cli import read_config, report_user_errors
from qbheat_mm.cli.command_line import add_cfg_options
from qbheat_mm.datasets import LoadNamedImageFromFile
from qbheat_mm.datasets.coco_check import (
    check_coco,
    check_images,
    check_masks,
    read_coco,
)
from qbheat_mm.errors import UserError
from qbheat_mm.utils.settings import is_local

COCO = ('CocoDataset', 'MatchedCocoDataset')


@dataclass
class Split:
    """What a data set holds."""
    summary: str = ''
    classes: dict[str, int] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='config file')
    parser.add_argument(
        '--deep',
        action='store_true',
        help='decode every image instead of reading some headers')
    add_cfg_options(parser)
    return parser.parse_args()


def datasets(setting: str, dataset: dict) -> Iterator[tuple[str, dict]]:
    """A data set, or those inside of a wrapper, with their settings."""
    inside = dataset.get('datasets') or [dataset.get('dataset')]
    if inside == [None]:
        yield setting, dataset
        return
    for i, part in enumerate(inside):
        name = f'datasets.{i}' if 'datasets' in dataset else 'dataset'
        yield from datasets(f'{setting}.{name}', part)


def loader_of(dataset: dict) -> LoadNamedImageFromFile:
    """A loader with the settings of the data set's pipeline."""
    known = ('color_type', 'backend_args', 'ignore_empty')
    for step in dataset.get('pipeline') or ():
        if str(step.get('type')).endswith(
                ('ImageFromFile', 'LoadRandomResizedCrop')):
            return LoadNamedImageFromFile(
                **{key: step[key] for key in known if key in step})
    return LoadNamedImageFromFile()


def reader_of(load: LoadNamedImageFromFile) -> Callable[[str], np.ndarray]:
    """Decode a file as training does, raising for damaged ones."""
    if load.ignore_empty is True:
        load.ignore_empty = False
    return lambda path: load(dict(img_path=path))['img']


def check_coco_split(dataset: dict, deep: bool) -> Split:
    """Check a data set in COCO format."""
    root = dataset.get('data_root') or ''
    path = osp.join(root, dataset.get('ann_file') or '')
    masks = any(step.get('with_mask') for step in dataset.get('pipeline', ()))
    content = read_coco(path, masks)
    classes = (dataset.get('metainfo') or {}).get('classes')
    if classes is None:
        from mmdet.datasets import CocoDataset
        classes = CocoDataset.METAINFO['classes']
    report = check_coco(content, path, classes,
                        dataset.get('allow_subset', False),
                        dataset.get('unlabelled', False))
    if masks and not report.errors:
        check_masks(content, report)
    folder = osp.join(root, (dataset.get('data_prefix') or {}).get('img', ''))
    load = loader_of(dataset)
    if is_local(folder, load.backend_args):
        check_images(
            content.images, folder, report,
            'ignore_orientation' not in load.color_type,
            skip_missing=load.ignore_empty is True,
            read=reader_of(load) if deep else None, run=progress)
    return Split(report.summary, report.per_class,
                 [osp.join(folder, image.file_name)
                  for image in content.images],
                 report.warnings, report.errors)


def check_folder_split(dataset: dict, deep: bool) -> Split:
    """Check an image folder, or another data set of mmpretrain."""
    built = DATASETS.build(dict(dataset, pipeline=[], lazy_init=False))
    items = [built.get_data_info(i) for i in range(len(built))]
    split = Split(f'{len(items)} images')
    split.files = [item['img_path'] for item in items if 'img_path' in item]
    names = built.metainfo.get('classes') or ()
    counts = Counter(int(item['gt_label']) for item in items
                     if np.ndim(item.get('gt_label', [0])) == 0)
    if counts:
        names = names or [str(label) for label in sorted(counts)]
        split.classes = {name: counts[i] for i, name in enumerate(names)}
        empty = [name for name, number in split.classes.items() if not number]
        if empty:
            split.warnings.append(f'classes without an image: {empty}')
    unread = list(unread_images(built.img_prefix, split.files))
    if unread and not dataset.get('ann_file'):
        split.warnings.append(f'{len(unread)} image files are not read, e.g. '
                              f"'{unread[0]}'")
    if deep:
        read = reader_of(loader_of(dataset))
        results = progress(error_of, [(read, path) for path in split.files])
        split.errors += [error for error in results if error]
    return split


def error_of(job: tuple[Callable, str]) -> str:
    """The error of decoding a file, '' if there is none."""
    read, path = job
    try:
        read(path)
    except UserError as error:
        return str(error)
    return ''


def unread_images(folder: str, files: list[str]) -> Iterator[str]:
    """Image files in a folder that a data set does not list."""
    known = {osp.normpath(path) for path in files}
    extensions = set(Image.registered_extensions()) - {'.pdf', '.mpg', '.h5'}
    for root, _, names in os.walk(folder):
        for name in names:
            path = osp.normpath(osp.join(root, name))
            if (osp.splitext(name)[1].lower() in extensions
                    and path not in known):
                yield path


def progress(function: Callable, items: Iterable) -> Iterator:
    """``map`` with a progress bar."""
    for item in track_iter_progress(list(items)):
        yield function(item)
    print()


def show(part: str, setting: str, split: Split) -> None:
    """Print what a data set holds."""
    print(f'{part} ({setting}): {split.summary}')
    for name, number in split.classes.items():
        print(f'    {name}: {number}')
    for line in split.warnings:
        print(f'  warning: {line}')
    for line in split.errors:
        print(f'  error: {line}')


def compare(found: dict[str, list[Split]]) -> Iterator[str]:
    """Describe how validation and test relate to training."""
    trained = {osp.realpath(file) for split in found.get('train', ())
               for file in split.files}
    classes = next((list(split.classes) for split in found.get('train', ())
                    if split.classes), None)
    for part in ('val', 'test'):
        for split in found.get(part, ()):
            both = [file for file in split.files
                    if osp.realpath(file) in trained]
            if both:
                yield (f'{len(both)} of {len(split.files)} images of {part} '
                       f"are also in train, e.g. '{both[0]}'")
            if split.classes and classes and list(split.classes) != classes:
                yield (f'the classes of {part}, {list(split.classes)}, are '
                       f'not those of train, {classes}')


def check_part(cfg: Config, part: str, deep: bool) -> list[Split]:
    """Check and show the data sets of one part."""
    found = []
    for setting, dataset in datasets(f'{part}_dataloader.dataset',
                                     cfg[f'{part}_dataloader'].dataset):
        kind = getattr(dataset.type, '__name__', dataset.type)
        check = (check_coco_split if str(kind).split('.')[-1] in COCO
                 else check_folder_split)
        try:
            split = check(dataset, deep)
        except UserError as error:
            split = Split('cannot be read', errors=[str(error)])
        show(part, setting, split)
        found.append(split)
    return found


def main() -> None:
    """Check."""
    args = parse_args()
    cfg = read_config(args.config, args.cfg_options)
    init_default_scope(cfg.get('default_scope', 'mmpretrain'))
    found = {}
    for part in ('train', 'val', 'test'):
        loader = cfg.get(f'{part}_dataloader')
        if loader is not None and not (
                part == 'test' and loader == cfg.get('val_dataloader')):
            found[part] = check_part(cfg, part, args.deep)
    if not found:
        raise UserError(f"'{args.config}' has no train_dataloader, "
                        'val_dataloader or test_dataloader')
    for line in compare(found):
        print(f'warning: {line}')
    errors = [line for splits in found.values() for split in splits
              for line in split.errors]
    if errors:
        raise UserError(errors[0])
    print('no errors')


if __name__ == '__main__':
    report_user_errors(main)
