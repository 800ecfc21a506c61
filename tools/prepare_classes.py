# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Prepare labeled images for training a classifier.

SOURCE is a folder of class folders, perhaps below train, val and test, or a
CSV file with a column of image names and one of classes. Without a split,
images are split by class, near-duplicates and videos (by name) together.
Writes OUT/{train,val}/CLASS/..., links to the images, and OUT/classes.py.
"""
import argparse
import csv
import os
import os.path as osp
import re
import shutil
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np

from qbheat_mm.annotations.export import Account, Files
from qbheat_mm.annotations.prepare_boxes import PACKAGE_CONFIGS
from qbheat_mm.annotations.split import choose_validation, perceptual_hash
from qbheat_mm.cli.command_line import folder, report_user_errors, share
from qbheat_mm.datasets.images import ImageFile
from qbheat_mm.errors import UserError

_CONFIG = """\
# {title}
_base_ = (__import__('qbheat_mm').__path__[0]
          + '{configs}/qbheat/benchmarks/'
          'mf-285m_1xb256-tran1-coslr-200e_own-folders.py')

data = dict(dataset=dict(data_root='{{{{ fileDirname }}}}/'))
train_dataloader = data
val_dataloader = data
test_dataloader = dict(
    dataset=dict(data_root='{{{{ fileDirname }}}}/', data_prefix='{test}'))
"""


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('source', help='folder or CSV file')
    parser.add_argument(
        '--out', required=True, type=folder, help='folder to write to')
    parser.add_argument(
        '--images', metavar='DIR', help='folder of the images of a CSV file, '
        'if it is not in its folder')
    parser.add_argument(
        '--val', type=share, default=0.2, help='share of images for '
        'validation, if there is no split; defaults to 0.2')
    parser.add_argument(
        '--seed', type=int, default=0, help='seed of this split')
    parser.add_argument(
        '--copy', action='store_true', help='copy the images')
    return parser.parse_args()


def read_folders(files: Files) -> list[tuple[str, str, str]]:
    """Return file, split and class of each image in class folders."""
    rows = []
    parents = {path: osp.relpath(path, files.image_root).split('/')[:-1]
               for path in files.images}
    # A class may be called 'train': a split has folders.
    splits = {first: files.split_of(first)
              for first, *below in filter(None, parents.values()) if below}
    for path, folders in parents.items():
        split = splits.get(folders[0], '') if folders else ''
        below = folders[1:] if split else folders
        if below:
            rows.append((path, split, below[0]))
        else:
            files.account.note('images left out', 'outside of class folders',
                               path)
    return rows


def read_csv(path: str, files: Files) -> list[tuple[str, str, str]]:
    """Return file, split and class of each row of a CSV file.

    Raises:
        UserError: If the columns of files and classes are not clear.
    """
    text = files.read(path)
    rows = [*csv.DictReader(text.splitlines(), dialect=csv.Sniffer().sniff(
        text.split('\n')[0], ',;\t'))]
    columns = [*rows[0]] if rows else []
    some = rows[:50]
    names = [name for name in columns if sum(
        bool(files.locate(row[name] or '', path)) for row in some)
        > len(some) / 2]
    splits = [name for name in columns if name not in names
              and re.fullmatch('split|subset|set|partition', name.lower())]
    labels = [name for name in columns if name not in (*names, *splits)]
    labels = [name for name in labels if re.fullmatch(
        'class|class_?name|label|category|target', name.lower())] or labels
    if len(names) != 1 or len(labels) != 1:
        raise UserError(
            f"'{path}' has the columns {columns}: keep one of image names "
            '(in its folder, or else in --images DIR) and one of classes')
    found = []
    for row in rows:
        file = files.locate(row[names[0]] or '', path)
        label = (row[labels[0]] or '').strip()
        if file and label:
            split = files.split_of(row[splits[0]] or '') if splits else ''
            found.append((file, split, label))
        else:
            files.account.note(
                'images left out', 'without a class' if file else
                'whose file is missing', row[names[0]])
    return found


def split(rows: list[tuple[str, str, str]], val: float,
          seed: int) -> list[tuple[str, str, str]]:
    """Choose images for validation, unless there are some.

    Raises:
        UserError: If only some images have a split.
    """
    splits = {split for _, split, _ in rows}
    loose = [file for file, split, _ in rows if not split]
    if loose and len(splits) > 1:
        raise UserError(f"'{loose[0]}' is in no split, but other images are: "
                        'give all images train, val or test, or none')
    if 'val' in splits and len(splits) > 1:
        return rows
    kept = [row for row in rows if row[1] == 'test' and len(splits) > 1]
    files, names = zip(*((file, name) for file, split, name in rows
                         if (file, split, name) not in kept))
    classes = sorted({*names})
    counts = np.array([[name == each for each in classes] for name in names])
    hashes = np.array([perceptual_hash(ImageFile(file)) for file in files])
    chosen, how = choose_validation(files, hashes, counts.astype(int),
                                    classes, val, seed)
    print(f'{chosen.sum()} images for validation: {how}')
    return kept + [(file, 'val' if held else 'train', name)
                   for file, name, held in zip(files, names, chosen)]


def place(rows: list[tuple[str, str, str]], out: str, copy: bool) -> None:
    """Link or copy images into folders; number equal names.

    All splits have the folders of all classes, so that labels agree.
    """
    _, parts, names = map(set, zip(*rows))
    for part, name in product(parts, names):
        Path(out, part, name.replace('/', '_')).mkdir(
            parents=True, exist_ok=True)
    taken = Counter()
    for file, part, name in rows:
        parent = Path(out, part, name.replace('/', '_'))
        stem, extension = osp.splitext(osp.basename(file))
        target = parent / f'{stem}{extension}'
        while osp.lexists(target):
            taken[parent, stem] += 1
            target = parent / f'{stem}_{taken[parent, stem] + 1}{extension}'
        if copy:
            shutil.copyfile(file, target)
        else:
            os.symlink(osp.abspath(file), target)


def main() -> None:
    args = parse_args()
    config = osp.join(args.out, 'classes.py')
    for name in (config, *(osp.join(args.out, part)
                           for part in ('train', 'val', 'test'))):
        if osp.exists(name):
            raise UserError(f"'{name}' exists: delete it, or choose another "
                            '--out')
    account = Account()
    files = Files(args.source, args.images, account)
    rows = read_csv(files.only, files) if files.only else read_folders(files)
    if len({name for _, _, name in rows}) < 2:
        raise UserError(f"'{args.source}' holds no labeled images of two "
                        'classes')
    rows = split(rows, args.val, args.seed)
    place(rows, args.out, args.copy)
    classes = sorted({name for _, _, name in rows})
    title = f'{len(rows)} images, {len(classes)} classes'
    splits = sorted({part for _, part, _ in rows})
    Path(config).write_text(_CONFIG.format(
        title=title, configs=PACKAGE_CONFIGS,
        test='test' if 'test' in splits else 'val'), 'utf-8')
    print(title)
    for name in classes:
        print(f'    {name}: ' + ', '.join(
            f'{sum(row[1:] == (part, name) for row in rows)} {part}'
            for part in splits))
    for (kind, what), (number, example) in account.items():
        print(f'{kind}: {number} {what}, e.g. {example}')
    train = osp.relpath(Path(__file__).with_name('train.py'))
    print(f'\nwrote {config}; next:\npython {train} {config}'
          ' --cfg-options encoder=ENCODER')


if __name__ == '__main__':
    report_user_errors(main)
