# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Writers of classes: folders, CSV files and lists; one label an image."""
import csv
from pathlib import Path

from .truth import Features, Truth

SPLITS = {'': '', 'train': 'train', 'val': 'valid', 'test': 'test'}


def write_folders(truth: Truth, root: Path, random) -> Path:
    """A folder for each class, maybe within those of splits."""
    for photo in truth.photos:
        folder = root / SPLITS[photo.split] / photo.targets[0].label
        photo.write(folder / photo.path)
    return root


def write_rows(path: Path, rows: list, header: list | None,
               delimiter: str) -> Path:
    with open(path, 'w', newline='', encoding='utf-8') as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerows([header] * bool(header) + rows)
    return path


def write_csv(truth: Truth, root: Path, random) -> Path:
    """Columns of names, classes, maybe splits, and others."""
    header = ['filename', 'width', 'label']
    splits = truth.splits != ['']
    rows = []
    for photo in truth.photos:
        photo.write(root / 'images' / photo.path)
        row = [f'images/{photo.path}', photo.size[0], photo.targets[0].label]
        rows.append(row + [photo.split] * splits)
    return write_rows(root / 'labels.csv', rows,
                      header + ['split'] * splits, random.choice([*',;\t']))


def write_csv_without_header(truth: Truth, root: Path, random) -> Path:
    rows = []
    for photo in truth.photos:
        photo.write(root / photo.path)
        rows.append([photo.path, photo.targets[0].label])
    return write_rows(root / 'labels.csv', rows, None, ',')


def write_kaggle(truth: Truth, root: Path, random) -> Path:
    """Numbers without an extension, and classes that are numbers."""
    rows = []
    for i, photo in enumerate(truth.photos):
        number = 100 + 7 * i
        photo.write(root / f'train/{number}.{photo.name[-3:]}')
        photo.targets[0].label = str(truth.labels.index(
            photo.targets[0].label))
        rows.append([number, photo.targets[0].label])
    return write_rows(root / 'train.csv', rows, ['id', 'label'], ',')


def write_list(truth: Truth, root: Path, random) -> Path:
    """mmpretrain's lists: a path, a space, a number."""
    lines = []
    for photo in truth.photos:
        photo.write(root / photo.path)
        photo.targets[0].label = str(truth.labels.index(
            photo.targets[0].label))
        lines.append(f'{photo.path} {photo.targets[0].label}\n')
    path = root / 'all.txt'
    path.write_text(''.join(lines), 'utf-8')
    return path


FORMS = dict(
    class_folders=(write_folders, Features(
        single=True, missing=False, slashes=False)),
    csv=(write_csv, Features(single=True, slashes=False)),
    csv_without_header=(write_csv_without_header, Features(
        single=True, slashes=False, splits=False)),
    kaggle=(write_kaggle, Features(
        single=True, slashes=False, splits=False)),
    mmpretrain_list=(write_list, Features(
        single=True, slashes=False, splits=False)))
