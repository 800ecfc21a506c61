# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What is prepared is written whole or not at all, over nobody's files."""
import pytest

from qbheat_mm.apis import prepare_boxes, prepare_classes
from qbheat_mm.errors import UserError

from ..helpers.exports import (
    NAMES,
    coco,
    write_image,
    write_json,
    write_numbered,
)


def snapshot(root):
    """The content of all files, and all folders."""
    found = {}
    for path in root.rglob('*'):
        found[path] = path.is_file() and path.read_bytes()
    return found


def boxes(root, out, **options):
    return prepare_boxes(str(root), str(out), **options)


def classes(root, out, **options):
    return prepare_classes(str(root), str(out), **options)


@pytest.fixture
def pets(tmp_path):
    root = tmp_path / 'pets'
    write_numbered(root / 'images', NAMES)
    names = [f'images/{name}' for name in NAMES]
    write_json(root / 'labels.json', coco(names))
    return root


@pytest.fixture
def photos(tmp_path):
    for i in range(12):
        write_image(tmp_path / f'photos/{"ab"[i % 2]}/{i}.png', i)
    return tmp_path / 'photos'


@pytest.mark.parametrize('name, options', [
    ('annotations/notes.txt', {}), ('annotations/train.json', {}),
    ('boxes.py', {}), ('report.html', {}),
    ('images/images/a.jpg', dict(copy=True)),
    ('images/mine.jpg', dict(copy=True))])
def test_boxes_overwrite_no_file(name, options, pets, tmp_path):
    file = tmp_path / 'out' / name
    file.parent.mkdir(parents=True)
    file.write_text('mine')
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match="out/.*' exists") as error:
        boxes(pets, tmp_path / 'out', **options)
    assert '\n' not in str(error.value) and snapshot(tmp_path) == before


@pytest.mark.parametrize('name', ['classes.py', 'train/a/0.png', 'val/x',
                                  'test/x'])
def test_classes_overwrite_no_file(name, photos, tmp_path):
    file = tmp_path / 'out' / name
    file.parent.mkdir(parents=True)
    file.write_text('mine')
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match="out/.*' exists"):
        classes(photos, tmp_path / 'out', copy=True)
    assert snapshot(tmp_path) == before


def test_a_broken_link_is_a_file_of_the_user(pets, tmp_path):
    (tmp_path / 'out').mkdir()
    (tmp_path / 'out/report.html').symlink_to(tmp_path / 'elsewhere')
    with pytest.raises(UserError, match='report.html'):
        boxes(pets, tmp_path / 'out')
    assert not (tmp_path / 'elsewhere').exists()


def test_copies_never_replace_their_originals(pets, tmp_path):
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match="pets/images' exists"):
        boxes(pets, pets, images=str(pets / 'images'), copy=True)
    assert snapshot(tmp_path) == before


def test_other_files_stay(pets, photos, tmp_path):
    """Also hidden ones, and images that are not copied to."""
    mine = {'notes.txt', '.hidden', 'images/mine.jpg', 'index.html'}
    for name in mine:
        file = tmp_path / 'out' / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('mine')
    boxes(pets, tmp_path / 'out')
    classes(photos, tmp_path / 'out')
    for name in mine:
        assert (tmp_path / 'out' / name).read_text() == 'mine'
    assert {path.name for path in (tmp_path / 'out').iterdir()} == {
        'notes.txt', '.hidden', 'images', 'index.html', 'annotations',
        'boxes.py', 'boxes_ft.py', 'report.html', 'classes.py', 'train',
        'val'}


@pytest.mark.parametrize('prepare', ['boxes', 'classes'])
@pytest.mark.parametrize('exists', [False, True])
def test_nothing_is_left_of_what_failed(prepare, exists, pets, photos,
                                        tmp_path, monkeypatch):
    """As if the disk were full when images are copied."""

    def fail(*args):
        raise OSError('No space left on device')

    out = tmp_path / 'out'
    if exists:
        out.mkdir()
    before = snapshot(tmp_path)
    monkeypatch.setattr('shutil.copyfile', fail)
    with pytest.raises(OSError, match='No space'):
        if prepare == 'boxes':
            boxes(pets, out, copy=True)
        else:
            classes(photos, out, copy=True)
    assert snapshot(tmp_path) == before


def test_a_folder_in_use_is_refused_at_the_end_too(pets, tmp_path,
                                                   monkeypatch):
    """Another program may write while images are read."""
    out = tmp_path / 'out'

    def draw(*args):
        (out / 'report.html').write_text('mine')
        return 'page'

    monkeypatch.setattr('qbheat_mm.annotations.page.render_boxes', draw)
    with pytest.raises(UserError, match="report.html' exists"):
        boxes(pets, out)
    assert [path.name for path in out.iterdir()] == ['report.html']
    assert (out / 'report.html').read_text() == 'mine'
