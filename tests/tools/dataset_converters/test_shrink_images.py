# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Copies of image folders with smaller images."""
import numpy as np
import pytest
from PIL import Image

from ...helpers.tools import run_tool


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    shades = rng.integers(0, 255, (9, 6, 3), dtype=np.uint8)
    large = Image.fromarray(shades).resize((200, 300), Image.BICUBIC)
    source = tmp_path / 'in'
    for name, image in {
            'cat/a.jpg': large, 'cat/b.png': large.resize((30, 20)),
            'dog/c.JPG': large.resize((40, 80)),
            'dog/deep/d.webp': large.rotate(90, expand=True)}.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, quality=95)
    turned = Image.Exif()
    turned[0x0112] = 6
    large.save(source / 'dog/turned.jpg', exif=turned, quality=95)
    (source / 'notes.txt').write_text('no image')
    return source


@pytest.fixture
def run(folder, capsys):
    def run(target=folder.parent / 'out', side=64):
        run_tool('dataset_converters/shrink_images.py', folder, target,
                 '--short-side', side, '--threads', 2)
        return capsys.readouterr()

    return run


def sizes(folder):
    out = folder.parent / 'out'
    return {path.relative_to(out).as_posix(): Image.open(path).size
            for path in sorted(out.rglob('*')) if path.is_file()}


SHRUNK = {'cat/a.jpg': (64, 96), 'cat/b.png.jpg': (30, 20),
          'dog/c.JPG': (40, 80), 'dog/deep/d.webp.jpg': (96, 64),
          'dog/turned.jpg': (96, 64)}


def test_images_and_folders(folder, run):
    assert '4 shrunk' in run().out and sizes(folder) == SHRUNK
    out = folder.parent / 'out'
    assert (out / 'dog/c.JPG').read_bytes() == (
        folder / 'dog/c.JPG').read_bytes()
    whole = Image.open(folder / 'cat/a.jpg').resize((64, 96), Image.BICUBIC)
    difference = np.abs(np.asarray(whole, int)
                        - np.asarray(Image.open(out / 'cat/a.jpg'), int))
    assert difference.mean() < 3


def test_a_second_run_continues(folder, run):
    run()
    (folder.parent / 'out/cat/a.jpg').unlink()
    assert '1 shrunk' in run().out and sizes(folder) == SHRUNK


def test_what_is_left_out_is_named(folder, run):
    path = folder / 'cat/a.jpg'
    path.write_bytes(path.read_bytes()[:2000])
    Image.new('L', (65501, 2)).save(folder / 'wide.png')
    told = run()
    assert str(path) in told.err and 'wide.png' in told.err
    assert '2 skipped' in told.out
    assert sorted(sizes(folder)) == sorted(SHRUNK)[1:]
    for path in folder.rglob('*.*'):
        path.write_bytes(b'damaged')
    with pytest.raises(SystemExit, match="no image of '.*in' could be shrunk"):
        run(folder.parent / 'other')


@pytest.mark.parametrize('target', ['.', 'smaller', '..'])
def test_a_target_among_the_images(folder, run, target):
    with pytest.raises(SystemExit, match='outside'):
        run(folder / target)
