# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Class folders and lists as users reported them.

Each is read right, or refused in one line. Names such as ``cvat#7523`` tell
where it was reported.
"""
import shutil

import pytest

from qbheat_mm.apis import prepare_classes
from qbheat_mm.errors import UserError

from .oracle.read_back import read_classes


@pytest.mark.parametrize('hidden', [
    '.ipynb_checkpoints/a-checkpoint.jpg', '__MACOSX/cat/._0.jpg',
    'cat/._0.jpg', 'cat/.ipynb_checkpoints/0-checkpoint.jpg'])
def test_hidden_folders_are_no_classes(hidden, export):
    """mmpretrain#507, vision#2831."""
    expected = set()
    for label in ('cat', 'dog'):
        for number in range(6):
            print_ = export.unlisted(f'{label}/{number}.jpg')
            expected.add((print_, label))
    if 'checkpoint' in hidden:
        export.unlisted(hidden)
    else:
        export.text(hidden, '\x00\x05\x16\x07\x00Mac OS X', 'latin-1')
    prepare_classes(str(export.root), str(export.out))
    assert expected == {(triple.image, triple.label)
                        for triple in read_classes(export.out)}


def test_an_image_with_two_classes_is_refused(export):
    """The same file under two labels in a CSV file."""
    rows = ['name,label']
    for label in ('cat', 'dog'):
        for number in range(6):
            export.unlisted(f'{label}{number}.jpg')
            rows.append(f'{label}{number}.jpg,{label}')
    rows.append('cat0.jpg,dog')
    export.text('labels.csv', '\n'.join(rows))
    with pytest.raises(UserError, match="cat0.jpg' is both 'cat' and 'dog'"):
        prepare_classes(str(export.root / 'labels.csv'), str(export.out))
    assert not export.out.exists()


@pytest.mark.parametrize('folder, below', [
    ('archive', 'cat/'), ('train', '')])
def test_one_class_is_refused(folder, below, export):
    """Such as of an archive's only folder, which holds the classes."""
    for number in range(4):
        export.unlisted(f'{folder}/{below}{number}.jpg')
    with pytest.raises(UserError, match=f"'{folder}' only.*two classes"):
        prepare_classes(str(export.root), str(export.out))
    assert not export.out.exists()


def test_one_class_to_train_on_is_refused(export):
    """As in published sets for the detection of anomalies."""
    for path in ('train/good', 'test/good', 'test/crack', 'test/hole'):
        for number in range(6):
            export.unlisted(f'{path}/{number}.jpg')
    with pytest.raises(UserError, match="training images of 'good' only"):
        prepare_classes(str(export.root), str(export.out))


@pytest.mark.parametrize('image, mask', [
    ('{}/{}.jpg', '{}/{}.png'), ('{}/{} (1).png', '{}/{} (1)_mask.png'),
    ('{}/images/{}.png', '{}/masks/{}.png'), ('{}/{}.jpg', '{}/gt/{}_GT.png'),
    ('train/{}/{}.png', 'train/{}/{}_segmentation.png')])
def test_masks_are_no_images(image, mask, export):
    """As in published sets of defects, ultrasound and radiographs."""
    for number in range(6):
        for label in ('cat', 'dog'):
            export.unlisted(image.format(label, number))
        export.unlisted(mask.format('dog', number))
    with pytest.raises(UserError, match="share a name.*'dog'"):
        prepare_classes(str(export.root), str(export.out))
    assert not export.out.exists()


@pytest.mark.parametrize('paths', [
    ('day1/{0}.jpg', 'day2/{0}.jpg'), ('label {0}.jpg', 'seg_{0}.jpg'),
    ('images/{0}.jpg', ), ('{0}.jpg', 'x{0}_mask.jpg')])
def test_names_that_are_alike_are_no_masks(paths, export):
    for label in ('cat', 'dog'):
        for number in range(4):
            for path in paths:
                export.unlisted(f'{label}/{path.format(number)}')
    prepare_classes(str(export.root), str(export.out))
    assert len(read_classes(export.out)) == 8 * len(paths)


@pytest.mark.parametrize('other', [
    'test/0.jpg', 'ground_truth/cat/0_mask.png', 'seg_pred/seg_pred/0.jpg'])
def test_folders_beside_splits_are_no_classes(other, export):
    """Such as images without labels, that competitions test on."""
    for label in ('cat', 'dog'):
        for number in range(4):
            export.unlisted(f'train/{label}/{number}.jpg')
    export.unlisted(other)
    with pytest.raises(UserError, match=f"{other}' is in no split"):
        prepare_classes(str(export.root), str(export.out))


def test_splits_may_be_in_folders_of_their_names(export):
    """As in archives of Kaggle."""
    expected = set()
    for split in ('train', 'test'):
        for label in ('cat', 'dog'):
            for number in range(6):
                print_ = export.unlisted(
                    f'seg_{split}/seg_{split}/{label}/{number}.jpg')
                if split == 'test':
                    expected.add(('test', print_, label))
    prepare_classes(str(export.root), str(export.out))
    assert expected == {
        (triple.split, triple.image, triple.label)
        for triple in read_classes(export.out) if triple.split == 'test'}


def test_a_class_may_have_the_name_of_a_split(export):
    """Trains, as vehicles."""
    for split in ('train', 'val'):
        for label in ('train', 'bus'):
            for number in range(4):
                export.unlisted(f'{split}/{label}/{number}.jpg')
    prepare_classes(str(export.root), str(export.out))
    assert {triple.label for triple in read_classes(export.out)} == {
        'train', 'bus'}


@pytest.mark.parametrize('paths, named', [
    (('train/cat', 'train/dog', 'val/cats', 'val/dogs'), ['cats', 'dog']),
    (('train/cat', 'train/dog', 'val/cat', 'val/Dog'), ['Dog', 'dog']),
    (('train/cat', 'train/dog', 'test/images'), ['images', 'cat']),
    (('cat', 'dog', 'test/unlabeled'), ['unlabeled', 'cat']),
    (('train/cat', 'train/dog', 'val/cat', 'test/cow'), ['cow', 'dog'])])
def test_classes_that_train_lacks_are_refused(paths, named, export):
    """Empty folders would hide them from the check before training."""
    for path in paths:
        for number in range(6):
            export.unlisted(f'{path}/{number}.jpg')
    with pytest.raises(UserError, match='train has .* lacks') as error:
        prepare_classes(str(export.root), str(export.out))
    assert all(repr(name) in str(error.value) for name in named)
    assert '\n' not in str(error.value) and not export.out.exists()


def test_classes_without_validation_images_are_told(export):
    for path in ('train/cat', 'train/dog', 'train/cow', 'val/cat'):
        for number in range(6):
            export.unlisted(f'{path}/{number}.jpg')
    report = prepare_classes(str(export.root), str(export.out))
    count = report.account['notes', 'classes have no images in val']
    assert (count.number, count.example) == (2, 'cow')


@pytest.mark.parametrize('name', [
    'test', 'Valid', 'training', 'test1', 'test_images', 'train-set'])
def test_a_split_next_to_classes_is_refused(name, export):
    for path in ('cat', 'dog', name):
        for number in range(6):
            export.unlisted(f'{path}/{number}.jpg')
    with pytest.raises(UserError, match=f"/{name}' is a split or a class"):
        prepare_classes(str(export.root), str(export.out))
    assert not export.out.exists()


def test_words_of_splits_may_be_in_names_of_classes(export):
    for path in ('train_station', 'test tube'):
        for number in range(6):
            export.unlisted(f'{path}/{number}.jpg')
    prepare_classes(str(export.root), str(export.out))
    assert {triple.label for triple in read_classes(export.out)} == {
        'train_station', 'test tube'}


@pytest.mark.parametrize('out', ['', 'new', 'cat/new'])
def test_output_in_the_input_is_refused(out, export):
    for label in ('cat', 'dog'):
        for number in range(6):
            export.unlisted(f'{label}/{number}.jpg')
    before = sorted(export.root.rglob('*'))
    with pytest.raises(UserError, match='--out .* choose a folder elsewhere'):
        prepare_classes(str(export.root), str(export.root / out), copy=True)
    assert sorted(export.root.rglob('*')) == before


@pytest.mark.parametrize('path', [
    'cat/val/1.jpg', 'animals/train/cat/1.jpg', 'train/cat/test/1.jpg'])
def test_splits_inside_classes_are_refused(path, export):
    """They would be lost, and their images split anew."""
    for label in ('cat', 'dog'):
        for number in range(6):
            export.unlisted(f'{label}/{number}.jpg')
    export.unlisted(path)
    with pytest.raises(UserError, match='is a split inside'):
        prepare_classes(str(export.root), str(export.out))
    assert not export.out.exists()


def test_what_is_not_read_is_counted(export):
    """Formats that are no images here, and a class that has no others."""
    for label in ('cat', 'dog'):
        for number in range(6):
            export.unlisted(f'{label}/{number}.jpg')
        export.text(f'{label}/scan.tga', '')
    export.text('bird/scan.tga', '')
    account = prepare_classes(str(export.root), str(export.out)).account
    files = account['files skipped', "of type '.tga', which are not read as "
                    'images']
    assert files.number == 3
    assert account['classes skipped', 'without an image'].example == 'bird'


@pytest.mark.parametrize('copies', [0, 4])
def test_copies_of_training_images_are_reported(copies, export):
    """A validation set that was copied promises too much."""
    for label in ('cat', 'dog'):
        for number in range(6):
            export.unlisted(f'train/{label}/{number}.jpg')
        for number in range(6):
            export.unlisted(f'val/{label}/{number}.jpg')
    for number in range(copies):
        shutil.copy(export.root / f'train/cat/{number}.jpg',
                    export.root / f'val/cat/copy{number}.jpg')
    account = prepare_classes(str(export.root), str(export.out)).account
    told = account.get(('warnings', 'images of val are copies of training '
                        'images, which inflates results'))
    assert (told.number if told else 0) == copies


def test_folders_inside_class_folders_are_told(export):
    """They may be the classes of two exports."""
    for folder in ('march', 'june'):
        for label in ('cat', 'dog'):
            for number in range(3):
                export.unlisted(f'{folder}/{label}/{number}.jpg')
    account = prepare_classes(str(export.root), str(export.out)).account
    assert account['notes', 'images in folders inside class folders, with '
                   "the outer folder's class"].number == 12


@pytest.mark.parametrize('labels, lines, expected', [
    (('0', '1', ''), 'melanoma\nnevus\n', ['melanoma', 'nevus']),
    (('0.0', '1.0', ''), 'melanoma\nnevus\n', ['melanoma', 'nevus']),
    (('0', '2'), 'melanoma\nnevus\nscar\n', ['melanoma', 'scar']),
    (('0', '2'), 'scar\nnevus\nscar\n', 'ids 0 and 2 are both class .scar'),
    (('0', '-1'), 'melanoma\nnevus\n', 'the class -1'),
    (('1', '2'), '1 melanoma\n2 nevus\n3 scar\n', 'numbers classes from 1')])
def test_numbers_of_a_list_are_lines_of_classes(labels, lines, expected,
                                                export):
    rows = ['name,label']
    for label in labels:
        for number in range(6):
            export.unlisted(f'{label}{number}.jpg')
            rows.append(f'{label}{number}.jpg,{label}')
    export.text('labels.csv', '\n'.join(rows))
    export.text('classes.txt', lines)
    source, out = str(export.root / 'labels.csv'), export.out
    if isinstance(expected, str):
        with pytest.raises(UserError, match=expected):
            prepare_classes(source, str(out))
        return
    account = prepare_classes(source, str(out)).account
    assert sorted(path.name for path in (out / 'train').iterdir()) == expected
    missing = account.get(('classes skipped', 'without an image'))
    assert bool(missing) == ('scar' in expected)


def test_one_class_in_several_spellings(export):
    """Accents that macOS stores apart are the same; case is not, but told."""
    for label in ('caf\u00e9', 'cafe\u0301', 'Hard Hat', 'hard  hat'):
        for number in range(4):
            export.unlisted(f'{label}/{number}.jpg')
    account = prepare_classes(str(export.root), str(export.out)).account
    assert sorted(path.name for path in (export.out / 'train').iterdir()
                  ) == ['Hard Hat', 'caf\u00e9', 'hard  hat']
    assert _warned(account) == ["'Hard Hat', 'hard  hat'"]


def _warned(account):
    """Class names that a warning calls similar."""
    return [count.example for (kind, reason), count in account.items()
            if kind == 'warnings' and reason.startswith('class names')]


@pytest.mark.parametrize('labels, similar', [
    (('1', '1.0', '2'), ["'1', '1.0'"]),
    (('class 01', 'class 1', 'class 10'), ["'class 01', 'class 1'"]),
    (('1.05', '1.5', '10', '100'), []),
])
def test_numbers_in_several_spellings(export, labels, similar):
    for label in labels:
        for number in range(4):
            export.unlisted(f'{label}/{number}.jpg')
    account = prepare_classes(str(export.root), str(export.out)).account
    assert _warned(account) == similar
