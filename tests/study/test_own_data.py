# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The study of one's own images, on drawn ones that lie where own would."""
import json
import runpy
import sys
from pathlib import Path

import pytest
from mmdet.registry import DATASETS
from mmengine.config import Config
from mmengine.registry import init_default_scope

from projects.drawn_world.study.arms import ENCODER, Run
from projects.drawn_world.study.files import load_study
from projects.drawn_world.study.place import Place
from projects.drawn_world.study.running import portable
from projects.drawn_world.world import CLASSES
from qbheat_mm.datasets.extensions import Folder
from qbheat_mm.errors import UserError

ROOT = Path(__file__).parents[2]
STUDY = ROOT / 'tools/study/own_data.py'
#: A step or two of each run.
FEW = ['train_cfg.max_epochs=1', 'train_dataloader.batch_size=4',
       'train_dataloader.num_workers=0', 'val_dataloader.num_workers=0',
       'train_dataloader.persistent_workers=False',
       'val_dataloader.persistent_workers=False']


def tool(name, *arguments):
    """Run a tool of the study in this process."""
    folder = ROOT / 'tools/study'
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setattr(sys, 'argv', [name, *map(str, arguments)])
        runpy.run_path(str(folder / f'{name}.py'), run_name='__main__')


@pytest.fixture(scope='module')
def drawn(tmp_path_factory):
    """A folder with data and my_boxes.py."""
    home = tmp_path_factory.mktemp('own')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        tool('draw', '--size', 64, '--images', 16, '--labelled', 16,
             '--boxes', 4, '--val', 8)
    return home


@pytest.fixture
def home(drawn, monkeypatch):
    monkeypatch.chdir(drawn)
    return drawn


def test_what_is_drawn_lies_where_own_data_would(home):
    for folder, count in (('images', 16), ('own/train', 16), ('own/val', 8)):
        files = sorted((home / 'data' / folder).rglob('*.jpg'))
        assert len(files) == count
        assert {file.parent.name for file in files} == set(CLASSES)
    # no image is in two of them
    everything = [file.read_bytes() for file in home.rglob('*.jpg')]
    assert len(set(everything)) == len(everything) == 16 + 16 + 8 + 4 + 8
    boxes = json.loads(
        (home / 'data/boxes/annotations/instances_val.json').read_text())
    assert [c['name'] for c in boxes['categories']] == list(CLASSES)
    assert len(boxes['images']) == 8


def test_every_option_is_a_setting_of_its_configuration(home):
    """A wrong key would end the study after hours."""
    study, questions = load_study(STUDY)
    assert {q.name for q in questions} == {
        'works', 'heat-equation', 'fine-tuning', 'inside'}
    for arm in study.arms:
        config = Config.fromfile(ROOT / 'configs' / arm.config)
        for option in arm.options:
            key, _, value = option.partition('=')
            parent, _, name = key.rpartition('.')
            node = config
            for part in parent.split('.'):
                node = node[part]
            # the prediction is the linear models' unless it is named
            assert name in node or name == 'prediction', option


def test_the_detector_reads_the_boxes(home):
    """Its training is that of test_own_data.py of the detectors."""
    config = Config.fromfile(home / 'my_boxes.py')
    assert config.model.bbox_head.num_classes == len(CLASSES)
    init_default_scope('mmdet')
    for loader, count in ((config.train_dataloader, 4),
                          (config.val_dataloader, 8)):
        images = DATASETS.build(loader.dataset)
        assert len(images) == count and images[0]['inputs'].shape[0] == 3
    assert Path(config.val_evaluator.ann_file).is_file()


def test_from_images_to_a_row_and_a_report(home, tmp_path):
    rows = tmp_path / 'rows.jsonl'
    tool('run', '--study', STUDY, '--results', rows, '--work-dir',
         tmp_path / 'work', '--seeds', 0, '--only', 'mocov2', '--probes',
         'encoder', '--device', 'cpu', '--cfg-options', *FEW)
    row, = map(json.loads, rows.read_text().splitlines())
    assert (row['arm'], row['stage'], row['machine']) == ('mocov2', ENCODER,
                                                          'cpu')
    assert row['command'].startswith('python tools/train.py configs/mocov2/')
    tool('report', '--study', STUDY, '--results', rows, '--out',
         tmp_path / 'docs', '--machine', 'cpu')
    text = (tmp_path / 'docs/evidence.md').read_text()
    assert 'MF-285M' in text and 'drawn images' not in text


@pytest.mark.parametrize('count', [0, 2, 3, 64, 255, 256, 700, 9000, 10**6])
def test_controls_fit_few_images_and_many(count, home, monkeypatch):
    monkeypatch.setattr(Folder, 'images', property(
        lambda self: range(count), lambda self, value: None), raising=False)
    monkeypatch.setattr(Folder, '__init__', lambda *_: None)
    study, _ = load_study(STUDY)
    settings = dict(option.split('=') for name in ('calibrated', 'mocov2')
                    for option in study.arm(name).options)
    batch = min(count, 256)
    steps = int(settings['train_cfg.max_epochs']) * max(1, count // 256)
    assert 64 <= steps <= 64 + max(64, count // 100)
    queue = int(settings['model.queue_len'])
    assert queue <= max(count, 2) and (count < 256 or queue % batch == 0)
    assert queue >= min(4096, count // 4)


def test_what_is_not_there_is_not_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match='my_boxes.py'):
        load_study(STUDY)
    (tmp_path / 'my_boxes.py').touch()
    study, questions = load_study(STUDY)
    assert {probe.name for probe in study.probes} == {'RetinaNet'}
    assert {q.name for q in questions} == {'works', 'heat-equation'}
    assert set(study.arm_names) == {'qbheat', 'calibrated', 'mocov2',
                                    'copied'}


def test_drawing_overwrites_nothing(home):
    with pytest.raises(SystemExit, match="'data/images' is there"):
        tool('draw', '--images', 1)
    with pytest.raises(SystemExit, match='512 pixels .* give 16 to 256'):
        tool('draw', '--size', 512, '--out', 'more')


def test_rows_name_no_folder_of_this_machine(home):
    """Nor that of the user's own detector, wherever it lies."""
    study, _ = load_study(STUDY)
    detector = study.probe('RetinaNet').config
    assert Path(detector).is_absolute()
    assert portable(f'{sys.executable} {ROOT}/tools/train.py {detector}',
                    Place(ROOT, home / 'work')
                    ) == 'python tools/train.py my_boxes.py'
    assert study.settings(Run('qbheat', 0, 'RetinaNet'))[0] == 'my_boxes.py'
