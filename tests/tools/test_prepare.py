# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Folders and CSV files of classes; tools that import no toolbox."""
import sys

import pytest

from ..helpers.exports import CASES, write_image
from ..helpers.tools import ROOT, run, run_tool


@pytest.fixture
def photos(tmp_path):
    """Ten images of each of two classes, and a list of them."""
    lines = ['file;label']
    for i in range(20):
        name = f'{"ab"[i % 2]}/{i}.png'
        write_image(tmp_path / 'photos' / name, i)
        lines.append(f'C:\\photos\\{i}.png;{"ab"[i % 2]}')
    (tmp_path / 'list.csv').write_text('\n'.join(lines))
    return tmp_path / 'photos'


def rows(printed):
    """The cells of the tables by the first one, in the last table with it."""
    lines = [line.split() for line in printed.splitlines()]
    return {line[0]: line[1:] for line in lines if line}


@pytest.mark.parametrize('source', ['photos', 'list.csv'])
def test_classes_are_split(source, photos, tmp_path, capsys):
    run_tool('prepare_classes.py', tmp_path / source, '--images', photos,
             '--out', tmp_path / 'out')
    found = rows(capsys.readouterr().out)
    assert found['a'] == found['b'] == ['8', '2']
    (tmp_path / 'out/val/c').mkdir()
    run_tool('check_data.py', tmp_path / 'out/classes.py')
    printed = capsys.readouterr().out
    assert "classes without an image: ['c']" in printed
    assert 'train (train_dataloader.dataset): 16 images' in printed
    assert printed.endswith('no errors\n')


def test_unlabeled_images_are_counted(photos, tmp_path, capsys):
    (tmp_path / 'own.py').write_text(
        f"_base_ = '{ROOT}/configs/qbheat/qbheat_mf-285m_1xb64-amp-coslr-"
        "80e_own-images.py'\ntrain_dataloader = dict(dataset=dict("
        f"data_root='{photos}'))\n")
    run_tool('check_data.py', tmp_path / 'own.py')
    assert capsys.readouterr().out == (
        'train (train_dataloader.dataset): 20 images\nno errors\n')


def test_a_split_in_folders_is_kept(photos, tmp_path, capsys):
    (tmp_path / 'split').mkdir()
    photos.rename(tmp_path / 'split/train')
    write_image(tmp_path / 'split/valid/a/7.jpg', 99)
    run_tool('prepare_classes.py', tmp_path / 'split', '--out',
             tmp_path / 'out', '--copy')
    assert rows(capsys.readouterr().out)['a'] == ['10', '1']
    assert not (tmp_path / 'out/val/a/7.jpg').is_symlink()
    write_image(tmp_path / 'split/c/8.jpg', 98)
    with pytest.raises(SystemExit, match="c/8.jpg' is in no split"):
        run_tool('prepare_classes.py', tmp_path / 'split', '--out',
                 tmp_path / 'other')
    # Validation has no image of this class, but counts it.
    assert (tmp_path / 'out/val/b').is_dir()


def test_classes_called_like_splits_are_refused(photos, tmp_path, capsys):
    """Unless they are in the folder of a split."""
    for name, new in (('a', 'valid'), ('b', 'train')):
        (photos / name).rename(photos / new)
    with pytest.raises(SystemExit, match='is a split or a class'):
        run_tool('prepare_classes.py', photos, '--out', tmp_path / 'out')
    (tmp_path / 'split').mkdir()
    photos.rename(tmp_path / 'split/train')
    run_tool('prepare_classes.py', tmp_path / 'split', '--out',
             tmp_path / 'out')
    found = rows(capsys.readouterr().out)
    assert found['train'] == found['valid'] == ['8', '2']
    (tmp_path / 'out/classes.py').unlink()  # as if the tool was interrupted
    with pytest.raises(SystemExit, match="out/train' exists: choose another"):
        run_tool('prepare_classes.py', tmp_path / 'split', '--out',
                 tmp_path / 'out')


@pytest.mark.parametrize('deep', [(), ('--deep', )])
def test_links_without_their_images_are_errors(deep, photos, tmp_path,
                                               capsys):
    """As after what was prepared went to another machine."""
    run_tool('prepare_classes.py', photos, '--out', tmp_path / 'data/out')
    (tmp_path / 'data').rename(tmp_path / 'elsewhere')
    (photos / 'a').rename(tmp_path / 'gone')
    config = tmp_path / 'elsewhere/out/classes.py'
    with pytest.raises(SystemExit) as error:
        run_tool('check_data.py', config, *deep)
    printed = capsys.readouterr().out
    assert 'no errors' not in printed
    message = str(error.value)
    assert f"is a link to '{photos}/a/" in message
    assert '/elsewhere/out/train/a/' in message and '\n' not in message
    if not deep:
        assert '8 of 16 images are missing' in message
        assert '2 of 4 images are missing' in printed


def test_equal_names_are_numbered(tmp_path):
    for i, name in enumerate(('x/a', 'y/a', 'a_2', 'b')):
        for part in ('train', 'val'):
            write_image(tmp_path / f'in/{part}/cat/{name}.png', i)
            write_image(tmp_path / f'in/{part}/dog/{name}.png', i)
    run_tool('prepare_classes.py', tmp_path / 'in', '--out', tmp_path / 'out')
    assert sorted(path.name for path in (tmp_path / 'out/val/cat').iterdir()
                  ) == ['a.png', 'a_2.png', 'a_3.png', 'b.png']


def test_a_table_may_have_splits_and_gaps(photos, tmp_path, capsys):
    lines = ['file,label,split', 'gone.png,a,train', '1.png,,train']
    lines += [f'{i}.png,{"ab"[i % 2]},{"test" if i > 15 else "train"}'
              for i in range(2, 20)]
    (tmp_path / 'list.csv').write_text('\n'.join(lines))
    run_tool('prepare_classes.py', tmp_path / 'list.csv', '--images', photos,
             '--out', tmp_path / 'out')
    printed = capsys.readouterr().out
    assert rows(printed)['a'] == ['6', '1', '2']
    words = ' '.join(printed.split())
    assert ('1 images skipped whose file is missing, or one of several of '
            'this name gone.png') in words
    assert '1 images skipped without a class 1.png' in words


def test_columns_must_be_clear(photos, tmp_path):
    (tmp_path / 'list.csv').write_text('file,a,b\n0.png,1,2\n')
    with pytest.raises(SystemExit, match=r"columns \['file', 'a', 'b'\]"):
        run_tool('prepare_classes.py', tmp_path / 'list.csv', '--images',
                 photos, '--out', tmp_path / 'out')


def test_prepared_boxes_are_checked(tmp_path):
    pytest.importorskip('mmdet')
    CASES['plain'].write(tmp_path / 'pets')
    run(sys.executable, ROOT / 'tools/prepare_boxes.py', 'pets', '--out',
        'out', cwd=tmp_path)
    printed = run(sys.executable, ROOT / 'tools/check_data.py',
                  'out/boxes.py', cwd=tmp_path)
    for part in ('train', 'val'):
        assert (f'{part} ({part}_dataloader.dataset): 6 images (0 without '
                'boxes), 12 of 12 boxes used, 0 of them crowds\n'
                '    cat: 6\n    dog: 6\n') in printed
    assert printed.endswith('no errors\n')
    (tmp_path / 'out/annotations/val.json').write_text('{"images": []}')
    printed = run(sys.executable, ROOT / 'tools/check_data.py',
                  'out/boxes.py', cwd=tmp_path, ok=False)
    assert 'val.json' in printed and 'prepare_boxes.py' in printed
