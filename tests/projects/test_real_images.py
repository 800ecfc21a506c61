# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The sets of the study on real images, and few labels of them."""
import json
import subprocess

import numpy as np
import pytest
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmpretrain.registry import DATASETS
from PIL import Image

from projects.real_images import classify, labels, layout
from qbheat_mm.errors import UserError
from qbheat_mm.evaluation.features import choose_few

from ..helpers.tools import ROOT, run_tool

VOC = ('<annotation><filename>wrong</filename><object><name>{}</name><bndbox>'
       '<xmin>2</xmin><ymin>3</ymin><xmax>12</xmax><ymax>9</ymax></bndbox>'
       '</object></annotation>')


def write(folder, texts=(), images=(), size=(20, 16)):
    for name, text in dict(texts).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name in images:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new('L', size).save(folder / name)


def steel(folder):
    """All images in a folder."""
    names = 'crazing_240', 'rolled-in_scale_241'
    write(folder, {f'ANNOTATIONS/{name}.xml': VOC.format(name[:-4])
                   for name in names},
          [f'IMAGES/{name}.jpg' for name in names])


def steel_split(folder):
    """Two folders of others' choice, and images that others set aside."""
    write(folder, {
        'train/annotations/crazing_240.xml': VOC.format('crazing'),
        'validation/annotations/rolled-in_scale_241.xml': VOC.format(
            'rolled-in_scale'),
        'Validation_Annotations/crazing_1.xml': VOC.format('crazing')
    }, ['train/images/crazing/crazing_240.jpg', 'Validation/crazing_1.jpg',
        'validation/images/rolled-in_scale/rolled-in_scale_241.jpg'])


def pcb(folder):
    write(folder / 'PCBData', {
        'trainval.txt': 'group1/1/10.jpg group1/1_not/10.txt\n',
        'test.txt': 'group1/1/11.jpg group1/1_not/11.txt\n',
        'group1/1_not/10.txt': '2 3 12 9 1\n',
        'group1/1_not/11.txt': '2 3 12 9 5\n',
    }, [f'group1/1/{name}.jpg'
        for name in ('10_test', '10_temp', '11_test', '11_temp')])


def blood(folder):
    lists = dict(trainval='a\n', train='', val='a\n', test='b\n')
    write(folder / 'BCCD', {
        'Annotations/a.xml': VOC.format('RBC'),
        'Annotations/b.xml': VOC.format('Platelets'),
        **{f'ImageSets/Main/{name}.txt': text for name, text in lists.items()}
    }, ['JPEGImages/a.jpg', 'JPEGImages/b.jpg'])


def lay_out(monkeypatch, *args):
    monkeypatch.setattr('sys.argv', ['layout.py', *map(str, args)])
    layout.main()


@pytest.mark.parametrize('publish,train,test', [
    (steel, ('crazing/crazing_240.jpg', 1),
     ('rolled-in_scale/rolled-in_scale_241.jpg', 5)),
    (steel_split, ('crazing/crazing_240.jpg', 1),
     ('rolled-in_scale/rolled-in_scale_241.jpg', 5)),
    (pcb, ('10_test.jpg', 1), ('11_test.jpg', 5)),
    (blood, ('a.jpg', 1), ('b.jpg', 3))])
def test_published_files_become_the_study_s(
        publish, train, test, tmp_path, monkeypatch):
    publish(tmp_path / 'as-published')
    lay_out(monkeypatch, publish.__name__.removesuffix('_split'),
            tmp_path / 'as-published', '--out', tmp_path / 'out')
    for split, (name, kind) in dict(train=train, test=test).items():
        written = json.loads(
            (tmp_path / f'out/annotations/{split}.json').read_text())
        assert written['images'] == [dict(
            id=1, file_name=f'{split}/{name}', width=20, height=16)]
        assert written['annotations'] == [dict(
            id=1, image_id=1, category_id=kind, bbox=[2, 3, 10, 6], area=60,
            iscrowd=0)]
    assert sorted(file.relative_to(tmp_path / 'out').as_posix()
                  for file in (tmp_path / 'out').rglob('*.jpg')) == [
        f'test/{test[0]}', f'train/{train[0]}']


def test_clothes_are_shrunk_and_validation_images_train(tmp_path, monkeypatch):
    write(tmp_path, images=[f'published/{part}/hat/{part}.jpg' for part in (
        'train', 'validation', 'test')], size=(400, 600))
    monkeypatch.setattr(subprocess, 'run', lambda command, check: run_tool(
        *command[1:]))
    lay_out(monkeypatch, 'clothing', tmp_path / 'published', '--out',
            tmp_path / 'out')
    assert {file.relative_to(tmp_path / 'out').as_posix():
            Image.open(file).size
            for file in (tmp_path / 'out').rglob('*.jpg')} == dict.fromkeys(
        ('train/hat/train.jpg', 'train/hat/validation.jpg',
         'test/hat/test.jpg'), (256, 384))


@pytest.mark.parametrize('name,missing', [
    ('steel', 'ANNOTATIONS'), ('pcb', 'trainval.txt'), ('blood', 'test.txt')])
def test_files_that_are_missing_are_named(name, missing, tmp_path,
                                          monkeypatch):
    with pytest.raises(UserError, match=f'{name} as published.*{missing}'):
        lay_out(monkeypatch, name, tmp_path, '--out', tmp_path / 'out')


def test_boxes_are_resized_with_their_images():
    pytest.importorskip('mmdet')
    from mmdet.registry import TRANSFORMS
    cfg = Config.fromfile(
        ROOT / 'projects/real_images/configs/retinanet.py')
    found = dict(img=np.zeros((400, 400, 3), np.uint8), instances=[
        dict(bbox=[100, 200, 300, 400], bbox_label=0, ignore_flag=0)])
    with DefaultScope.overwrite_default_scope('mmdet'):
        for step in cfg.train_dataloader.dataset.pipeline[1:-1]:
            found = TRANSFORMS.build(step)(found)
    assert found['img'].shape[:2] == (200, 200)
    assert found['gt_bboxes'].tensor.tolist() == [[50, 100, 150, 200]]


def test_fine_tuning_loads_the_labels_that_probes_have(tmp_path):
    write(tmp_path, images=[f'train/{name}/{i}.jpg'
                            for name in 'ab' for i in range(9)])
    assert labels.FewLabels.__name__ in DATASETS.module_dict
    settings = dict(data_root=str(tmp_path / 'train'), pipeline=[])
    every = DATASETS.build(dict(settings, type='NamedImageFolder'))
    some = DATASETS.build(dict(settings, type='FewLabels', count=6, seed=0))
    chosen = choose_few(every.get_gt_labels(), 6, 0)
    assert [some.get_data_info(i)['img_path'] for i in range(len(some))] == [
        every.get_data_info(i)['img_path'] for i in chosen]
    assert np.bincount(some.get_gt_labels()).tolist() == [3, 3]


def test_a_probe_has_its_run_s_seed_and_all_features_the_same_classifiers():
    rng = np.random.default_rng(0)
    numbers = np.repeat(np.arange(3), 40)

    def draw(**shapes):
        return {name: rng.normal(size=(len(numbers), *shape)).astype('f4')
                for name, shape in shapes.items()}

    def evaluate(features, seed):
        return classify.evaluate(
            features, numbers, features, numbers[::-1], 4, {'tran-1': 1e-3},
            seed)

    maps = draw(pixels=(4, 2, 2), tokens=(1, 8))
    scores = [evaluate(maps, seed) for seed in (0, 0, 1, 2, 3)]
    assert scores[0] == scores[1]
    assert len({each['tran-1'] for each in scores}) > 1
    assert len({each['ridge'] for each in scores}) == 1
    without_maps = evaluate(draw(hog=(8, )), 0)
    assert {*scores[0]} - {*without_maps} == {'tran-1'}
