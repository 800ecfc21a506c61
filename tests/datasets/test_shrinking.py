# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Image folders made smaller."""
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from qbheat_mm.datasets.shrinking import (
    COPIED,
    LARGER,
    THERE,
    WRITTEN,
    shrink,
    summary,
)
from qbheat_mm.errors import UserError


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


def run(folder, **kwargs):
    target = folder.parent / 'out'
    outcomes = Counter(shrink(str(folder), str(target), 64, **kwargs))
    sizes = {path.relative_to(target).as_posix(): Image.open(path).size
             for path in sorted(target.rglob('*')) if path.is_file()}
    return outcomes, sizes


@pytest.mark.parametrize('processes', [1, 2])
def test_shorter_sides_and_folders(folder, processes):
    outcomes, sizes = run(folder, processes=processes)
    assert sizes == {
        'cat/a.jpg': (64, 96), 'cat/b.jpg': (30, 20), 'dog/c.jpg': (40, 80),
        'dog/deep/d.jpg': (96, 64), 'dog/turned.jpg': (96, 64)}
    assert outcomes == {WRITTEN: 4, COPIED: 1}
    out = folder.parent / 'out'
    assert (out / 'dog/c.jpg').read_bytes() == (
        folder / 'dog/c.JPG').read_bytes()
    whole = Image.open(folder / 'cat/a.jpg').resize((64, 96), Image.BICUBIC)
    difference = np.abs(np.asarray(whole, int)
                        - np.asarray(Image.open(out / 'cat/a.jpg'), int))
    assert difference.mean() < 3


def run_script(text, folder):
    """Run a program of its own on the folder and one to write into."""
    script = folder.parent / 'script.py'
    script.write_text(text)
    return subprocess.run(
        [sys.executable, str(script), str(folder), str(folder.parent / 'out')],
        capture_output=True, text=True, timeout=120)


AFTER_THREADS = """
import sys
import cv2, numpy, torch
from qbheat_mm.datasets.shrinking import shrink

if __name__ == '__main__':
    weight = torch.ones(500, 500, requires_grad=True)
    (weight @ weight).sum().backward()
    cv2.setNumThreads(4)
    cv2.resize(numpy.zeros((2000, 2000)), (500, 500))
    print(len(list(shrink(*sys.argv[1:], 64, processes=2))))
"""


def test_a_process_that_has_threads_can_shrink(folder):
    """Copies of it made by forking would wait for threads they lack."""
    told = run_script(AFTER_THREADS, folder)
    assert told.stdout.endswith('\n5\n'), told.stderr


def many(number):
    """Other names of one image, in number."""
    return {'./' * i + 'cat/a.jpg': f'{i}.jpg' for i in range(number)}


KILLED = """
import multiprocessing, sys
from qbheat_mm.datasets.shrinking import shrink
from qbheat_mm.cli import report_user_errors

def main():
    names = {'./' * i + 'cat/a.jpg': f'{i}.jpg' for i in range(300)}
    for i, _ in enumerate(shrink(*sys.argv[1:], 64, 90, 2, names)):
        if i == 0:
            multiprocessing.active_children()[0].kill()

if __name__ == '__main__':
    report_user_errors(main)
"""


def test_a_process_that_is_killed_ends_all(folder):
    """What it had taken would be waited for, for ever."""
    told = run_script(KILLED, folder)
    assert told.returncode and 'fewer --processes' in told.stderr
    assert 'Traceback' not in told.stderr


def test_no_more_is_begun_than_is_soon_asked_for(folder):
    out = folder.parent / 'out'
    outcomes = shrink(str(folder), str(out), 64, 90, 2, many(300))
    assert next(outcomes) == WRITTEN
    outcomes.close()
    assert 0 < len(list(out.iterdir())) < 150


def test_what_was_killed_goes_on(folder, monkeypatch):
    """Nothing is done twice, and no file is left in part."""
    outcomes, sizes = run(folder)
    out = folder.parent / 'out'
    (out / 'cat/a.jpg').unlink()
    written = {path: path.stat().st_mtime_ns for path in out.rglob('*.jpg')}
    assert run(folder)[0] == {WRITTEN: 1, THERE: 4}
    assert all(path.stat().st_mtime_ns == t for path, t in written.items())

    (out / 'cat/a.jpg').unlink()
    monkeypatch.setattr('os.replace', lambda *args: (_ for _ in ()).throw(
        OSError(28, 'No space left on device')))
    with pytest.raises(UserError, match='No space left on device'):
        run(folder)
    assert sorted(out.rglob('*.*')) == sorted(written)


def test_a_file_that_is_damaged_is_named_and_left_out(folder):
    path = folder / 'cat/a.jpg'
    path.write_bytes(path.read_bytes()[:2000])
    outcomes, sizes = run(folder)
    line, = (what for what in outcomes if what.startswith('image '))
    assert str(path) in line and 'cat/a.jpg' not in sizes
    assert summary(outcomes) == '3 shrunk, 1 small already, 1 left out'


@pytest.mark.parametrize('break_it, message', [
    (lambda f: Image.new('RGB', (9, 9)).save(f / 'cat/a.png'),
     "'cat/a.jpg' and 'cat/a.png' .* would both become"),
    (lambda f: f.rename(f.parent / 'elsewhere'), 'is no folder'),
    (lambda f: [p.unlink() for p in f.rglob('*.*') if p.is_file()],
     'holds no image')])
def test_what_cannot_be_shrunk(folder, break_it, message):
    break_it(folder)
    with pytest.raises(UserError, match=message):
        run(folder)


@pytest.mark.parametrize('target', ['.', 'smaller', '..'])
def test_a_target_among_the_images(folder, target):
    with pytest.raises(UserError, match='must lie outside'):
        list(shrink(str(folder), str(folder / target), 64))


def test_a_file_is_what_it_holds_and_not_what_it_is_called(tmp_path):
    (tmp_path / 'in').mkdir()
    Image.new('RGB', (20, 20)).save(tmp_path / 'in/a.jpg', format='PNG')
    assert list(shrink(str(tmp_path / 'in'), str(tmp_path / 'out'), 100)) == [
        WRITTEN]
    assert Image.open(tmp_path / 'out/a.jpg').format == 'JPEG'


def test_what_no_jpeg_can_hold_is_named(tmp_path):
    (tmp_path / 'in').mkdir()
    Image.new('L', (65501, 2)).save(tmp_path / 'in/wide.png')
    Image.new('L', (30, 20)).save(tmp_path / 'in/a.png')
    said = sorted(shrink(str(tmp_path / 'in'), str(tmp_path / 'out'), 100))
    assert said[1] == WRITTEN and 'wide.png' in said[0]
    assert '65501 x 2 pixels' in said[0]


def test_what_no_copy_holds_is_told(folder, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr('qbheat_mm.datasets.extensions.print_log',
                        lambda text, *args, **kwargs: said.append(text))
    list(shrink(str(folder), str(tmp_path / 'out'), 64))
    assert len(said) == 1 and '5 images, left out: 1 .txt' in said[0]


def test_what_is_there_and_larger_than_asked_is_told(folder):
    run(folder)
    source, target = str(folder), str(folder.parent / 'out')
    outcomes = Counter(shrink(source, target, 40))
    assert outcomes == {LARGER: 3, THERE: 2}
    assert '3 there already and larger (remove' in summary(outcomes)
    (folder.parent / 'out/cat/a.jpg').write_text('no image')
    outcome, = [each for each in shrink(source, target, 64)
                if each != THERE]
    assert 'is there and is no image; remove that' in outcome
