# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Writers of classes: folders, CSV files and lists; one label an image.

Each writer knows whether what it writes can be read in one way only. Else the
words of ``Written.ambiguous`` must be in the one line that refuses it.
"""
import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from .truth import Features, Truth

SPLITS = {'': '', 'train': 'train', 'val': 'valid', 'test': 'test'}
#: How lists spell splits.
SPELLINGS = dict(train=['train', 'Train', 'training'],
                 val=['val', 'valid', 'Validation'],
                 test=['test', 'TEST', 'testing'])
IMAGE_TITLES = ['image', 'file', 'filename', 'path', 'Image Name']
LABEL_TITLES = ['label', 'class', 'Category', 'species', 'target']
OTHER_LABEL_TITLES = ['animal', 'diagnosis', 'Type']


class Written(NamedTuple):
    """What was written, and whether it may or must be refused."""
    source: Path
    images: Path | None = None
    #: Words of the refusal; empty if there is one way to read it.
    ambiguous: tuple = ()
    #: Whether each reading of it would be wrong.
    wrong: bool = False


class Column(NamedTuple):
    title: str
    cells: list


def write_folders(truth: Truth, root: Path, random) -> Written:
    """A folder for each class, maybe within those of splits."""
    stems = set()
    for photo in truth.photos:
        folder = root / SPLITS[photo.split] / photo.targets[0].label
        photo.write(folder / photo.path)
        stems.add(folder / photo.stem)
    if len(stems) < len(truth.photos):  # an image, or a mask
        return Written(root, ambiguous=('share a name', ))
    return Written(root)


def write_folders_of_other_classes(truth: Truth, root: Path, random
                                   ) -> Written:
    """A class has another name in val or test, or none at all."""
    split = random.choice([name for name in truth.splits if name != 'train'])
    label = truth.labels[0]
    other = random.choice(['images', f'{label}s', label.upper() + '_', 'x'])
    for photo in truth.photos:
        name = photo.targets[0].label
        if photo.split == split and (name == label or other == 'images'):
            name = other
        photo.write(root / SPLITS[photo.split] / name / photo.path)
    return Written(root, ambiguous=(other, truth.labels[1], split), wrong=True)


def write_a_split_next_to_classes(truth: Truth, root: Path, random
                                  ) -> Written:
    """Images to test on, whose classes are not known."""
    other = random.choice(['test', 'Testing', 'val', 'validation', 'train',
                           'test_images', 'test set', 'test1'])
    for i, photo in enumerate(truth.photos):
        label = photo.targets[0].label if i % 3 else other
        photo.write(root / label / photo.name)
    return Written(root, ambiguous=(f"/{other}'", ), wrong=True)


def draw_titles(random, truth: Truth, more_columns: bool) -> list:
    """Draw titles of images and classes, or none for a list without."""
    if not more_columns and random.random() < 0.5:
        return [None, None]
    titles = LABEL_TITLES + OTHER_LABEL_TITLES * (not more_columns)
    return [str(random.choice(IMAGE_TITLES)), str(random.choice(titles))]


def draw_numbers(random, truth: Truth, start: int = 0) -> Column:
    """The index of a table, in order or not, or the ids of a database."""
    numbers = np.arange(start, start + len(truth.photos))
    if random.random() < 0.7:
        numbers = random.permutation(numbers)
    return Column(str(random.choice(['', 'Unnamed: 0', 'id', 'nr'])),
                  numbers.tolist())


def draw_other_columns(random, truth: Truth) -> list[Column]:
    """Columns that are no classes, which only titles tell."""
    number = len(truth.photos)
    columns = [
        Column('width', [photo.size[0] for photo in truth.photos]),
        Column('fold', (np.arange(number) % 2).tolist()),
        Column('score', random.random(number).round(3).tolist()),
        Column('camera', ['old' if i % 3 else 'new' for i in range(number)]),
        Column('caption', [f'photo, no. {i}' for i in range(number)])]
    chosen = random.permutation(len(columns))[:random.integers(1, 4)]
    return [columns[i] for i in chosen]


def draw_split(random, truth: Truth) -> list[Column]:
    if truth.splits == ['']:
        return []
    cells = [str(random.choice(SPELLINGS[photo.split]))
             for photo in truth.photos]
    title = random.choice(['split', 'subset', 'Usage', 'part', 'data set'])
    return [Column(str(title), cells)]


def label_column(random, truth: Truth, title: str | None) -> Column:
    """Classes, half of the time as numbers."""
    if random.random() < 0.5:
        for photo in truth.photos:
            photo.targets[0].label = str(truth.labels.index(
                photo.targets[0].label))
    return Column(title, [photo.targets[0].label for photo in truth.photos])


def write_table(path: Path, columns: list[Column], random,
                delimiter: str | None = None) -> Path:
    """Write columns and rows in any order."""
    columns = [columns[i] for i in random.permutation(len(columns))]
    rows = [*zip(*(column.cells for column in columns))]
    rows = [rows[i] for i in random.permutation(len(rows))]
    if all(column.title is not None for column in columns):
        rows.insert(0, [column.title for column in columns])
    delimiter = delimiter or random.choice([*',;\t'])
    encoding = random.choice(['utf-8', 'utf-8-sig'])
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, 'w', newline='', encoding=str(encoding)) as file:
        csv.writer(file, delimiter=str(delimiter)).writerows(rows)
    return path


def untitled(columns: list[Column], titles: list) -> list[Column]:
    """Remove all titles if the list has none."""
    if titles[0] is not None:
        return columns
    return [Column(None, column.cells) for column in columns]


def write_csv(truth: Truth, root: Path, random) -> Written:
    """Paths, classes, an index, maybe splits and others; in any order."""
    for photo in truth.photos:
        photo.write(root / 'images' / photo.path)
    others = draw_other_columns(random, truth) * bool(random.random() < 0.6)
    titles = draw_titles(random, truth, bool(others))
    apart = random.random() < 0.3
    prefix = '' if apart or random.random() < 0.3 else 'images/'
    columns = [
        Column(titles[0], [prefix + photo.path for photo in truth.photos]),
        label_column(random, truth, titles[1]),
        *others, *draw_split(random, truth)]
    if random.random() < 0.7:
        columns.append(draw_numbers(random, truth))
    list_ = root / 'labels.csv'
    if apart:
        list_ = root.with_name('lists') / 'labels.csv'
    elif not prefix:
        list_ = root / 'images/labels.csv'
    return Written(write_table(list_, untitled(columns, titles), random),
                   root / 'images' if apart else None)


def write_numbered(truth: Truth, root: Path, random) -> Written:
    """Names are numbers, as an index, ids and classes are."""
    start = int(random.integers(2))
    folder = str(random.choice(['', 'images', 'train']))
    names = []
    for i, photo in zip(random.permutation(len(truth.photos)), truth.photos):
        names.append(f'{i + start}.{photo.name[-3:]}')
        photo.write(root / folder / names[-1])
    others = draw_other_columns(random, truth) * bool(random.random() < 0.5)
    titles = draw_titles(random, truth, bool(others))
    columns = [Column(titles[0], names),
               label_column(random, truth, titles[1]),
               draw_numbers(random, truth, int(random.integers(2))),
               *others, *draw_split(random, truth)]
    return Written(write_table(
        root / 'labels.csv', untitled(columns, titles), random))


def write_kaggle(truth: Truth, root: Path, random) -> Written:
    """Names without extension; numbers may be an index that also fits."""
    numbers = random.permutation(len(truth.photos))
    style = random.choice(['from 0', 'far', 'text'])
    stems = []
    for i, photo in zip(numbers, truth.photos):
        stems.append({'from 0': f'{i}', 'far': f'{100 + 7 * i}',
                      'text': f'img.{i}'}[style])
        photo.write(root / f'train/{stems[-1]}.{photo.name[-3:]}')
    titles = draw_titles(random, truth, False)
    image = Column(titles[0], stems)
    columns = [image, label_column(random, truth, titles[1]),
               *draw_split(random, truth)]
    ambiguous = ()
    if random.random() < 0.5:
        columns.append(draw_numbers(random, truth))
        if style == 'from 0':
            ambiguous = 'may all name', image.title, columns[-1].title
            if image.title is None:
                ambiguous = ambiguous[:1]
    columns = untitled(columns, titles)
    return Written(write_table(root / 'train.csv', columns, random),
                   ambiguous=ambiguous)


def write_masks(truth: Truth, root: Path, random) -> Written:
    """Masks or thumbnails are listed beside images, which may be lost."""
    other = str(random.choice(['masks', 'thumbs', 'seg']))
    suffix = str(random.choice(['', '_mask']))
    lost, stems = random.random(2) < (0.2, 0.3)
    if lost or stems:
        other, suffix = 'masks', '_mask'
    folders, images, masks = [f'{other}/', 'images/'], [], []
    if random.random() < 0.3 and suffix:
        folders = ['', '']  # only names
    for i, photo in zip(random.permutation(len(truth.photos)), truth.photos):
        name, extension = f'{i}', photo.name[-4:]
        if not lost:
            photo.write(root / f'images/{name}{extension}')
        images.append(name if stems else f'{folders[1]}{name}{extension}')
        masks.append(f'{folders[0]}{name}{suffix}.png')
        path = root / f'{other}/{name}{suffix}.png'
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(255 - photo.pixels).save(path)
    titles = draw_titles(random, truth, True)
    columns = [Column('mask', masks), Column(titles[0], images),
               label_column(random, truth, titles[1])]
    if random.random() < 0.5:
        columns.append(draw_numbers(random, truth))
    return Written(write_table(root / 'labels.csv', columns, random),
                   ambiguous=('mask', titles[0]), wrong=bool(lost))


def write_names_and_paths(truth: Truth, root: Path, random) -> Written:
    """Two columns name the same images, one of them with the folders."""
    for photo in truth.photos:
        photo.write(root / 'images' / photo.path)
    titles = draw_titles(random, truth, True)
    columns = [
        Column('name', [photo.name for photo in truth.photos]),
        Column(titles[0], [f'images/{photo.path}' for photo in truth.photos]),
        label_column(random, truth, titles[1]),
        *draw_split(random, truth)]
    if random.random() < 0.5:
        columns.append(draw_numbers(random, truth))
    return Written(write_table(root / 'labels.csv', columns, random))


def write_ids_without_zeros(truth: Truth, root: Path, random) -> Written:
    """As pandas reads and writes them."""
    numbers = []
    for i, photo in enumerate(truth.photos):
        numbers.append(i + 1)
        photo.write(root / f'{i + 1:05d}.{photo.name[-3:]}')
    titles = draw_titles(random, truth, False)
    label = label_column(random, truth, titles[1])
    return Written(
        write_table(root / 'train.csv', [Column(titles[0], numbers), label],
                    random), ambiguous=('zeros', '/000'))


def write_list(truth: Truth, root: Path, random) -> Written:
    """mmpretrain's lists: a path, a space, a number."""
    lines = []
    for photo in truth.photos:
        photo.write(root / photo.path)
        photo.targets[0].label = str(truth.labels.index(
            photo.targets[0].label))
        lines.append(f'{photo.path} {photo.targets[0].label}\n')
    path = root / 'all.txt'
    path.write_text(''.join(lines), 'utf-8')
    return Written(path)


def features(**options) -> Features:
    return Features(single=True, slashes=False, **options)


FORMS = dict(
    class_folders=(write_folders, features(missing=False)),
    folders_of_other_classes=(write_folders_of_other_classes, features(
        missing=False, must_split=True, extensions=False)),
    a_split_next_to_classes=(write_a_split_next_to_classes, features(
        missing=False, splits=False, nested=False)),
    csv=(write_csv, features()),
    numbered=(write_numbered, features(nested=False)),
    kaggle=(write_kaggle, features(nested=False, extensions=False)),
    masks=(write_masks, features(splits=False, missing=False)),
    names_and_paths=(write_names_and_paths, features()),
    ids_without_zeros=(write_ids_without_zeros, features(
        splits=False, missing=False)),
    mmpretrain_list=(write_list, features(splits=False)))
