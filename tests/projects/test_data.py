"""The data set on disk."""
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import mmcv
import numpy as np
import pytest

from projects.drawn_world import CLASSES, TextureBank, data, detection_scene
from qbheat_mm.errors import UserError


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv('QBHEAT_CACHE', str(tmp_path))
    return tmp_path


@pytest.fixture(scope='module')
def drawn(tmp_path_factory):
    """The tiny data set, drawn once."""
    root = tmp_path_factory.mktemp('data') / 'drawn'
    data.draw(root, data.SIZES['tiny'])
    return root


def digest(root):
    """Of all files, by name."""
    return {
        str(path.relative_to(root)):
        hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob('*')) if path.is_file()
    }


def test_it_is_made_once_and_the_same_everywhere(drawn):
    root = data.ensure_demo_data('tiny')
    stamps = [path.stat().st_mtime_ns for path in sorted(root.rglob('*'))]
    assert data.ensure_demo_data('tiny') == root
    assert stamps == [
        path.stat().st_mtime_ns for path in sorted(root.rglob('*'))
    ]
    assert digest(root) == digest(drawn)


def test_other_sizes_go_to_another_folder(monkeypatch):
    before = data.demo_root('tiny')
    assert data.demo_root('full') != before
    monkeypatch.setitem(data.SIZES, 'tiny',
                        replace(data.SIZES['tiny'], seed=1))
    assert data.demo_root('tiny') != before


def test_an_interrupted_run_leaves_nothing(cache, monkeypatch):

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(data, '_list_images', interrupt)
    with pytest.raises(KeyboardInterrupt):
        data.ensure_demo_data('tiny')
    assert not data.demo_root('tiny').exists()
    assert not list((cache / 'demo').glob('unfinished-*'))


def test_who_wants_it_at_the_same_time_shares_it(cache, monkeypatch):
    draw, calls = data.draw, []
    monkeypatch.setattr(data, 'draw', lambda *args: (
        calls.append(args), draw(*args)))
    with ThreadPoolExecutor(3) as pool:
        roots = set(pool.map(data.ensure_demo_data, ['tiny'] * 3))
    assert roots == {data.demo_root('tiny')} and len(calls) == 1
    assert not list((cache / 'demo').glob('unfinished-*'))


def test_the_image_folder(drawn):
    root = drawn / 'classification'
    sizes = data.SIZES['tiny']
    for split, count in (('train', sizes.train), ('val', sizes.val)):
        assert sorted(p.name for p in (root / split).iterdir()) == list(
            CLASSES)
        assert len(list((root / split).rglob('*.jpg'))) == count
    lines = (root / 'meta/labeled.txt').read_text().splitlines()
    assert len(lines) == sizes.labeled
    for line in lines:
        name, label = line.split()
        assert (root / 'train' / name).is_file()
        assert name.split('/')[0] == CLASSES[int(label)]
    unlabeled = (root / 'meta/unlabeled.txt').read_text().splitlines()
    assert len(unlabeled) == sizes.train
    assert [line.split()[0] for line in lines] == unlabeled[:sizes.labeled]


def test_masks_lie_in_their_boxes(drawn):
    coco = pytest.importorskip('pycocotools.coco').COCO
    objects = coco(drawn / 'detection/annotations/instances_val.json')
    assert len(objects.anns) > 8
    for annotation in objects.anns.values():
        mask = objects.annToMask(annotation)
        assert mask.shape == (128, 128)
        left, top, width, height = annotation['bbox']
        assert mask.sum() == annotation['area'] < width * height
        rows, columns = mask.any(1).nonzero()[0], mask.any(0).nonzero()[0]
        assert (columns[0], columns[-1]) == (left, left + width - 1)
        assert (rows[0], rows[-1]) == (top, top + height - 1)


def test_a_cache_that_cannot_be_written(monkeypatch):
    monkeypatch.setenv('QBHEAT_CACHE', '/proc/nowhere')
    with pytest.raises(UserError, match="'/proc/nowhere.*set QBHEAT_CACHE"):
        data.ensure_demo_data('tiny')


def test_other_sizes_are_drawn_into_a_folder(tmp_path, monkeypatch):
    out = tmp_path / 'out'
    monkeypatch.setattr('sys.argv', f'data.py --out {out} --image-size 32 '
                        '--tiles 4 --train 8 --labeled 4 --val 8 '
                        '--detection-train 2 --detection-val 1'.split())
    data.main()
    images = list((out / 'classification').rglob('*.jpg'))
    assert len(images) == 16
    assert mmcv.imread(str(images[0])).shape == (32, 32, 3)


@pytest.mark.parametrize('split, number', [('train', 2), ('val', 3)])
def test_files_and_annotations_are_the_scenes(drawn, split, number):
    root, sizes = drawn / 'detection', data.SIZES['tiny']
    coco = json.loads(
        (root / f'annotations/instances_{split}.json').read_text())
    names = {c['id']: c['name'] for c in coco['categories']}
    bank = TextureBank(sizes.seed, sizes.tiles)
    for record in coco['images'][:4]:
        scene = detection_scene(np.random.default_rng(
            [sizes.seed, number, record['id']]), bank, sizes.image_size)
        image = mmcv.imread(str(root / split / record['file_name']),
                            channel_order='rgb')
        error = np.abs(image.astype(int) - scene.image)
        assert error.mean() < 6
        own = [a for a in coco['annotations']
               if a['image_id'] == record['id']]
        assert [names[a['category_id']] for a in own] == [
            CLASSES[label] for label in scene.labels]
        corners = []
        for annotation in own:
            x, y, w, h = annotation['bbox']
            corners.append((x, y, x + w, y + h))
        assert corners == scene.boxes


def test_the_data_of_the_study(tmp_path):
    sizes = replace(data.SIZES['tiny'], kind='materials')
    data.draw(tmp_path / 'out', sizes)
    assert len(list((tmp_path / 'out/classification/train').iterdir())) == 8
    coco = json.loads((tmp_path / 'out/detection/annotations'
                       '/instances_val.json').read_text())
    assert [each['name'] for each in coco['categories']] == list(
        sizes.classes)


def test_seeds_of_the_study_share_nothing():
    seeds = [sizes.seed for name, sizes in data.SIZES.items()
             if name.startswith('study-')]
    assert len(set(seeds)) == 7
