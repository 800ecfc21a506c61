# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Several heads predict from the command line."""
import json
import os
import shutil

import mmcv
import numpy as np
import pytest
import torch
from mmengine.structures import PixelData
from PIL import ExifTags, Image

from qbheat_mm.cli import find_checkpoint
from qbheat_mm.cli.head_option import split_head
from qbheat_mm.cli.predictions import prediction_to_json
from qbheat_mm.errors import UserError

from ..helpers.tools import run_tool

pytest.importorskip('mmdet')
from mmdet.apis import inference_detector, init_detector  # noqa: E402
from mmdet.structures import DetDataSample  # noqa: E402
from pycocotools import mask as coco  # noqa: E402


@pytest.fixture
def predict(head_runs, forget):
    """A function that runs the tool with the heads of these names."""

    def run(names, *arguments):
        forget()
        given = [f'--head={name}={cfg.filename}:{checkpoint}' for
                 name, (cfg, checkpoint) in head_runs.items() if name in names]
        run_tool('predict.py', *given, *arguments)

    return run


@pytest.fixture
def photos(tmp_path):
    """A folder with an image below it and a damaged one, and a file."""
    random = np.random.default_rng(0)
    folder = tmp_path / 'photos'
    for name, shape in (('photos/a.jpg', (90, 60, 3)),
                        ('photos/below/a.jpg', (64, 128, 3)),
                        ('other.bmp', (50, 50, 3))):
        mmcv.imwrite(random.integers(0, 255, shape, np.uint8),
                     str(tmp_path / name))
    whole = (folder / 'a.jpg').read_bytes()
    (folder / 'damaged.jpg').write_bytes(whole[:len(whole) // 2])
    return folder


def found_by_mmdet(run, file, size=None):
    """What mmdet's own inference finds in a file."""
    cfg = run[0].copy()
    if size:
        cfg.test_dataloader.dataset.pipeline[1].scale = size
    # Without a palette it would build, here draw, the data set.
    model = init_detector(cfg, run[1], palette='random', device='cpu')
    found = inference_detector(model, str(file)).pred_instances
    return found[found.scores.argsort(descending=True)]


@pytest.mark.parametrize('size', [None, (96, 64)])
def test_all_heads_of_all_images(predict, head_runs, photos, tmp_path, size):
    out = tmp_path / 'out'
    with pytest.raises(SystemExit, match=r'damaged\.jpg'):
        predict(('lin', 'masks'), photos, tmp_path / 'other.bmp', '--out',
                out, '--score', 0.12, *(('--size', *size) if size else ()))
    content = json.loads((out / 'predictions.json').read_text())
    assert len(content['problems']) == 1
    rows = content['images']
    assert [row['picture'] for row in rows] == [
        'photos/a.jpg', 'below/a.jpg', f'{tmp_path.name}/other.bmp.png']
    assert (rows[0]['height'], rows[0]['width']) == (90, 60)
    for row in rows:
        picture, image = mmcv.imread(
            str(out / row['picture'])), mmcv.imread(row['file'])
        assert picture.shape == image.shape and (picture != image).any()
        assert list(row['found']) == ['lin', 'masks']
        scores = [item['score'] for item in row['found']['lin']]
        assert len(scores) == 5 and scores == sorted(scores, reverse=True)
    items = rows[0]['found']['masks']
    found = found_by_mmdet(head_runs['masks'], rows[0]['file'], size)
    found = found[found.scores >= 0.12]
    assert len(items) == len(found) > 0
    for item, label, score, box, mask in zip(
            items, found.labels, found.scores, found.bboxes, found.masks):
        assert item['class'] == f'class_{label}'
        assert item['score'] == pytest.approx(score.item())
        assert item['box'] == pytest.approx(box.tolist(), abs=1e-4)
        assert (coco.decode(item['mask']) == mask.numpy()).all()
    assert mask.shape == (90, 60)


def test_the_score_is_that_of_the_best_f1(
        head_runs, photos, tmp_path, capsys, forget):
    cfg, checkpoint = head_runs['masks']
    content = torch.load(checkpoint, weights_only=False)
    content['meta']['score_threshold'] = 0.12
    torch.save(content, tmp_path / 'masks.pth')
    forget()
    run_tool('predict.py', f'--head=m={cfg.filename}:{tmp_path}/masks.pth',
             photos / 'a.jpg', '--out', tmp_path / 'out')
    printed = capsys.readouterr().out
    assert printed.startswith('m: objects that score 0.12 or more')
    out = tmp_path / 'out'
    assert f'1 pictures in {out}, predictions in {out}/pred' in printed
    row, = json.loads(
        (tmp_path / 'out/predictions.json').read_text())['images']
    lowest = min(item['score'] for item in row['found']['m'])
    assert 0.12 <= lowest < 0.3


def test_a_classifier_alone_prepares_as_in_its_tests(
        predict, photos, tmp_path):
    predict(('lin', ), photos / 'a.jpg', '--out', tmp_path / 'out')
    row, = json.loads(
        (tmp_path / 'out/predictions.json').read_text())['images']
    assert row['found']['lin'][0]['class'].startswith('class_')


def test_a_detector_beside_it_changes_no_class(predict, photos, tmp_path):
    """Unless a size for both is given."""
    found = {}
    for case, names, size in (
            ('alone', ('lin', ), ()), ('both', ('lin', 'masks'), ()),
            ('one size', ('lin', 'masks'), ('--size', 64, 96))):
        predict(names, photos / 'a.jpg', '--out', tmp_path / case, *size)
        row, = json.loads(
            (tmp_path / case / 'predictions.json').read_text())['images']
        found[case] = row['found']['lin']
    assert found['both'] == found['alone'] != found['one size']


def test_names_may_be_no_text(head_runs, photos, tmp_path, capsys, forget):
    """Of files, folders and classes, as of archives from Chinese Windows."""
    odd = os.fsdecode('\u7f3a\u9677'.encode('gbk'))
    photo = tmp_path / odd / f'{odd}.jpg'
    photo.parent.mkdir()
    shutil.copy(photos / 'a.jpg', photo)
    given = []
    for name in ('lin', 'masks'):
        cfg, checkpoint = head_runs[name]
        content = torch.load(checkpoint, weights_only=False)
        content['meta']['dataset_meta']['classes'] = [
            f'{odd}{i}' for i in range(8)]
        torch.save(content, tmp_path / f'{name}.pth')
        given.append(f'--head={name}={cfg.filename}:{tmp_path}/{name}.pth')
    forget()
    out = tmp_path / odd / 'out'
    run_tool('predict.py', *given, photo, '--out', out, '--score', 0.1)
    assert r'\udccf\udcdd' in capsys.readouterr().out
    row, = json.loads((out / 'predictions.json').read_text())['images']
    assert row['file'] == str(photo) and (out / row['picture']).exists()
    for items in row['found'].values():
        assert items[0]['class'].startswith(odd)


def test_panoptic_segments_are_masks():
    segments = torch.tensor([[0, 1001, 2001], [2, 1001, 2001]])  # 2: nothing
    sample = DetDataSample(pred_panoptic_seg=PixelData(sem_seg=segments[None]))
    items = prediction_to_json(sample, ['sky', 'cat'], 0.3)
    assert [item['class'] for item in items] == ['sky', 'cat', 'cat']
    assert coco.decode(items[2]['mask']).tolist() == [[0, 0, 1], [0, 0, 1]]


def test_images_are_not_overwritten(predict, photos):
    with pytest.raises(SystemExit, match='overwrite'):
        predict(('lin', ), photos / 'a.jpg', '--out', photos)


def test_pictures_of_similar_names(predict, photos, tmp_path):
    for name in ('x.bmp', 'x.bmp.png'):
        shutil.copy(tmp_path / 'other.bmp', photos / name)
    (photos / 'damaged.jpg').unlink()
    predict(('lin', ), photos, '--out', tmp_path / 'out')
    rows = json.loads(
        (tmp_path / 'out/predictions.json').read_text())['images']
    pictures = {row['picture'] for row in rows}
    assert len(pictures) == len(rows) == 4
    for picture in pictures:
        assert (tmp_path / 'out' / picture).is_file()


def test_images_are_loaded_as_the_config_says(head_runs, photos, tmp_path,
                                              forget):
    cfg, checkpoint = head_runs['masks']
    cfg = cfg.copy()
    cfg.test_dataloader.dataset.pipeline[0].color_type = (
        'color_ignore_orientation')
    cfg.dump(tmp_path / 'stored.py')
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6
    with Image.open(photos / 'a.jpg') as image:
        image.save(tmp_path / 'rotated.jpg', exif=exif)
    forget()
    run_tool('predict.py', f'--head=m={tmp_path}/stored.py:{checkpoint}',
             tmp_path / 'rotated.jpg', '--out', tmp_path / 'out')
    row, = json.loads(
        (tmp_path / 'out/predictions.json').read_text())['images']
    assert (row['height'], row['width']) == (90, 60)


@pytest.mark.parametrize(('config', 'checkpoint'), [
    ('lin.py', 'lin.pth'), (r'C:\a b\lin.py', r'D:\runs\lin.pth'),
    ('/x/lin.yaml', 'https://host:80/lin.pth'), ('a.py', 'b.py:c.pth')])
def test_colons_in_paths(config, checkpoint):
    assert split_head(f'tran-1={config}:{checkpoint}') == (
        'tran-1', config, checkpoint)
    with pytest.raises(UserError):
        split_head(f'a name={config}:{checkpoint}')


def best_in(folder):
    return os.path.basename(find_checkpoint(str(folder), 'checkpoint'))


def test_the_work_folder_of_a_run(head_runs, tmp_path):
    cfg, checkpoint = head_runs['lin']
    shutil.copy(checkpoint, tmp_path / 'epoch_9.pth')
    shutil.copy(checkpoint, tmp_path / 'epoch_10.pth')
    shutil.copy(cfg.filename, tmp_path / 'lin.py')
    assert split_head(f'classes={tmp_path}') == (
        'classes', str(tmp_path / 'lin.py'), str(tmp_path))
    assert best_in(tmp_path) == 'epoch_10.pth'
    # The run told what its best evaluation was.
    shutil.copy(checkpoint, tmp_path / 'best_coco_bbox_mAP_iter_5.pth')
    assert best_in(tmp_path) == 'best_coco_bbox_mAP_iter_5.pth'
    for name, run in (('epoch_11', 'second'), ('best_bbox_iter_9', 'first'),
                      ('best_bbox_iter_5', 'second')):
        content = torch.load(checkpoint, weights_only=False)
        content['meta']['experiment_name'] = run
        torch.save(content, tmp_path / f'{name}.pth')
        os.utime(tmp_path / f'{name}.pth', (0, 10 - len(name)))
    assert best_in(tmp_path) == 'best_bbox_iter_5.pth'
    (tmp_path / 'best_bbox_iter_5.pth').unlink()
    assert best_in(tmp_path) == 'epoch_11.pth'
    # A resumed run knows the best checkpoint of the run before.
    content['message_hub'] = dict(runtime_info=dict(
        best_ckpt='/elsewhere/best_bbox_iter_9.pth'))
    torch.save(content, tmp_path / 'epoch_11.pth')
    assert best_in(tmp_path) == 'best_bbox_iter_9.pth'
    (tmp_path / 'other.py').touch()
    with pytest.raises(UserError, match='one config'):
        split_head(f'classes={tmp_path}')
