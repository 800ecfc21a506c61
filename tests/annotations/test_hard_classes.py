# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Class folders and lists as users reported them.

Each is read right, or refused in one line. Names such as ``cvat#7523`` tell
where it was reported.
"""
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


def test_an_image_with_two_classes_is_refused_or_counted(export):
    """The same file under two labels in a CSV file."""
    rows = ['name,label']
    for label in ('cat', 'dog'):
        for number in range(6):
            export.unlisted(f'{label}{number}.jpg')
            rows.append(f'{label}{number}.jpg,{label}')
    rows.append('cat0.jpg,dog')
    export.text('labels.csv', '\n'.join(rows))
    try:
        report = prepare_classes(
            str(export.root / 'labels.csv'), str(export.out))
    except UserError as error:
        assert 'cat0.jpg' in str(error)
    else:
        prints = [triple.image for triple in read_classes(export.out)]
        assert len(prints) == len({*prints})
        assert report.account.left_out('images')


def test_one_class_is_refused(export):
    """Such as of an archive's only folder, which holds the classes."""
    for label in ('cat', 'dog'):
        for number in range(4):
            export.unlisted(f'archive/{label}/{number}.jpg')
    with pytest.raises(UserError, match='two classes'):
        prepare_classes(str(export.root), str(export.out))
    assert not export.out.exists()
