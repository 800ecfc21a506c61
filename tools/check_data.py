# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Check the data of a config, and count its images, classes and boxes."""
import argparse
import hashlib
import os.path as osp
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from mmengine.config import Config
from mmengine.logging import MMLogger
from mmengine.registry import DATASETS, init_default_scope
from mmengine.utils import track_iter_progress

from qbheat_mm.cli.arguments import add_cfg_options
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.config.reading import read_config
from qbheat_mm.datasets import LoadNamedImageFromFile
from qbheat_mm.datasets.images import describe_missing, is_local
from qbheat_mm.errors import UserError
from qbheat_mm.utils.settings import type_name


@dataclass
class Split:
    """The content of a data set."""
    summary: str
    classes: dict[str, int] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def unwrap(setting: str, dataset: dict) -> Iterator[tuple[str, dict]]:
    """Yield a data set, or those inside a wrapper, with their settings."""
    for i, part in enumerate(dataset.get('datasets') or ()):
        yield from unwrap(f'{setting}.datasets.{i}', part)
    if 'dataset' in dataset:
        yield from unwrap(f'{setting}.dataset', dataset['dataset'])
    elif 'datasets' not in dataset:
        yield setting, dataset


def check_split(title: str, settings: dict, cfg: Config,
                deep: bool) -> Split:
    """Check a data set and print its content."""
    try:
        split = read_split(settings, cfg, deep)
    except UserError as error:
        split = Split('cannot be used', errors=[str(error)])
    print(f'{title}: {split.summary}')
    for name, number in split.classes.items():
        print(f'    {name}: {number}')
    for line in split.warnings:
        print(f'  warning: {line}')
    for line in split.errors:
        print(f'  error: {line}')
    return split


def warn_of_empty(split: Split) -> Split:
    """Warn of classes without an image."""
    empty = [name for name, number in split.classes.items() if not number]
    if empty:
        split.warnings.append(f'classes without an image: {empty}')
    return split


def read_split(settings: dict, cfg: Config, deep: bool) -> Split:
    """Build a data set, which checks it, and count its content."""
    init_default_scope(cfg.get('default_scope', 'mmpretrain'))
    MMLogger.get_instance('check_data').setLevel('WARNING')
    if type_name(settings) == 'CocoDataset':
        settings = dict(settings, type='MatchedCocoDataset')
    try:
        dataset = DATASETS.build(dict(settings, lazy_init=False))
    except UserError as error:
        if type_name(settings) != 'MatchedCocoDataset':
            raise
        raise UserError(f'{error}; tools/prepare_boxes.py corrects many '
                        'faults of exported files') from error
    infos = [dataset.get_data_info(i) for i in range(len(dataset))]
    report = getattr(dataset, 'report', None)  # of COCO files
    split = (Split(report.summary, report.per_class, warnings=report.warnings)
             if report else count_labels(dataset, infos))
    infos = [info for info in infos if 'img_path' in info]
    split.files = [info['img_path'] for info in infos]
    load = find_loader(dataset)
    if deep:
        decode_all(load, infos, split)
    else:
        find_missing(load, split)
    return split


def count_labels(dataset, infos: list[dict]) -> Split:
    """Count images of each class."""
    split = Split(f'{len(infos)} images')
    counts = Counter(int(info['gt_label']) for info in infos
                     if np.ndim(info.get('gt_label', [0])) == 0)
    names = dataset.metainfo.get('classes') or map(str, sorted(counts))
    if counts:
        split.classes = {name: counts[i] for i, name in enumerate(names)}
    return warn_of_empty(split)


def find_loader(dataset):
    """Return the transform that reads images, or a new one."""
    for step in dataset.pipeline.transforms:
        load = getattr(step, 'load', step)
        if isinstance(load, LoadNamedImageFromFile):
            return load
    return LoadNamedImageFromFile()


def find_missing(load, split: Split) -> None:
    """Add an error if images are missing, e.g. behind broken links."""
    missing = []
    for file in split.files:
        if is_local(file, load.backend_args) and not osp.isfile(file):
            missing.append(file)
    if missing:
        split.errors.append(
            f'{len(missing)} of {len(split.files)} images are missing, e.g. '
            f"'{missing[0]}' {describe_missing(missing[0])}")


def decode_all(load, infos: list[dict], split: Split) -> None:
    """Decode every image as in training; add the errors and warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('default')
        for info in track_iter_progress(infos):
            try:
                load.decode(load.open(info))
            except UserError as error:
                split.errors.append(str(error))
    print()
    split.warnings += sorted({str(each.message) for each in caught})


def shared(found: dict[str, list[Split]]) -> Iterator[str]:
    """Warn of validation and test images that are also trained on.

    Files of equal content are one image.
    """
    trained = defaultdict(list)
    for split in found.get('train', ()):
        for file in filter(osp.isfile, split.files):
            trained[osp.getsize(file)].append(file)
    digests = {}
    for part in ('val', 'test'):
        for split in found.get(part, ()):
            both = []
            for file in filter(osp.isfile, split.files):
                size = osp.getsize(file)
                if size not in digests:  # most files need not be read
                    digests[size] = set(map(digest, trained[size]))
                if digests[size] and digest(file) in digests[size]:
                    both.append(file)
            if both:
                yield (f'{len(both)} of {len(split.files)} images of {part} '
                       f"are also in train, e.g. '{both[0]}'")


def digest(file: str) -> bytes:
    """Hash the content of a file."""
    return hashlib.blake2b(Path(file).read_bytes()).digest()


def main() -> None:
    """Check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='config file')
    parser.add_argument(
        '--deep', action='store_true',
        help='decode all images, not only some of them')
    add_cfg_options(parser)
    args = parser.parse_args()
    cfg = read_config(args.config, args.cfg_options)
    found = {}
    for part in ('train', 'val', 'test'):
        loader = cfg.get(f'{part}_dataloader')
        if loader is None or (
                part == 'test' and loader == cfg.get('val_dataloader')):
            continue
        found[part] = []
        for setting, dataset in unwrap(f'{part}_dataloader.dataset',
                                       loader.dataset):
            found[part].append(check_split(
                f'{part} ({setting})', dataset, cfg, args.deep))
    if not found:
        raise UserError(f"'{args.config}' has no train_dataloader, "
                        'val_dataloader or test_dataloader')
    for line in shared(found):
        print(f'warning: {line}')
    for splits in found.values():
        for split in splits:
            if split.errors:
                raise UserError(split.errors[0])
    print('no errors')


if __name__ == '__main__':
    report_user_errors(main)
