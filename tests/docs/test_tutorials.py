# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Follow the tutorials, block by block, on a few drawn images."""
import json
import re
import shutil
import sys

import pytest
import torch
from mmengine.config import Config

from projects.drawn_world.data import ensure_demo_data

from ..helpers.pages import ROOT, read_blocks
from ..helpers.running import Page
from ..helpers.tools import run_tool

pytestmark = [pytest.mark.mmdet, pytest.mark.skipif(
    torch.cuda.is_available(), reason='needs no GPU')]
ENCODER = 'qbheat_mf-285m_1xb64-amp-coslr-80e_own-images'
ARCH = dict(
    _delete_=True, stem=4, tokens=(2, 8), conv=24,
    stages=[[('lite', 8, 4)], [('mf-down', 8, 8)], [('mf-down', 16, 16)],
            [('mf-down', 32, 16), ('mf', 16, 16)]])


def short(loaders, settings):
    """Add settings for a run of seconds."""
    return {'train_cfg.max_epochs': 2, 'default_hooks.logger.interval': 1,
            **in_process(loaders), **settings}


def in_process(loaders):
    return {f'{name}_dataloader.{key}': value for name in loaders
            for key, value in (('num_workers', 0),
                               ('persistent_workers', False))}


VALIDATED = {
    'val_dataloader.dataset.pipeline.1.scale': 64,
    'val_dataloader.dataset.pipeline.2.crop_size': 64}
LINEAR = short(('train', 'val'), {
    'train_dataloader.dataset.pipeline.0.scale': 64, **VALIDATED})
TRAN = short(('train', 'val'), {
    'train_dataloader.dataset.pipeline.1.scale': 64,
    'train_dataloader.dataset.pipeline.2.crop_size': 64, **VALIDATED})
DETECTS = {
    'train_cfg.max_iters': 4, 'train_cfg.val_interval': 4,
    'default_hooks.logger.interval': 1,
    **in_process(('train', 'val', 'test')), **{
        'train_dataloader.batch_size': 8,
        'train_dataloader.dataset.pipeline.2.scale': (64, 64),
        'val_dataloader.dataset.pipeline.1.scale': (64, 64),
        'test_dataloader.dataset.pipeline.1.scale': (64, 64),
        'model.backbone.arch': ARCH, 'model.test_cfg.score_thr': 0.,
        'model.neck': dict(in_channels=[16, 24], out_channels=16),
        'model.bbox_head': dict(in_channels=16, feat_channels=16,
                                stacked_convs=1)}}
SMALL = {
    f'qbheat/{ENCODER}.py': short(['train'], {
        'train_dataloader.dataset.pipeline.0.scale': 64,
        'train_dataloader.batch_size': 8, 'model.backbone.arch': ARCH,
        'model.neck': dict(depth=1, embed_dims=16, num_heads=2),
        'model.predictor': dict(embed_dims=16, in_channels=24)}),
    'qbheat/benchmarks/mf-285m_1xb256-linear-coslr-90e_own-folders.py': LINEAR,
    'qbheat/benchmarks/mf-285m_1xb16-tran1-coslr-30e_own-folders.py': {
        **TRAN, 'model.backbone.arch': ARCH,
        'model.neck': dict(in_channels=24, token_dims=8)},
    'qbheat/coco/gfl_mf-285m_own-data.py': DETECTS,
    'qbheat/coco/retinanet_mf-285m_own-data.py': DETECTS}


def code_of(page):
    """Blocks of a tutorial that no other test runs."""
    return [block for block in read_blocks(f'docs/tutorials/{page}.md')
            if block.is_code and not (block.needs or block.tested)]


@pytest.fixture(scope='module')
def drawn(tmp_path_factory):
    """A few images of the demo."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('QBHEAT_CACHE', str(tmp_path_factory.mktemp('cache')))
        return ensure_demo_data('tiny')


def write_boxes(root, drawn):
    """Write drawn boxes as the reader's own, with two classes."""
    shutil.copytree(drawn / 'train', root / 'images')
    content = json.loads(
        (drawn / 'annotations/instances_train.json').read_text())
    content['categories'] = [
        dict(id=1, name='first'), dict(id=2, name='second')]
    for box in content['annotations']:
        box['category_id'] = box['category_id'] % 2 + 1
    (root / 'annotations').mkdir()
    for split in ('train', 'val'):
        (root / f'annotations/{split}.json').write_text(json.dumps(content))


@pytest.fixture(scope='module', autouse=True)
def quicker():
    """Write coarse pictures."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('qbheat_mm.report.report.DPI', 40)
        yield


@pytest.fixture(scope='module')
def home(tmp_path_factory, drawn, forget):
    """A folder in which the first tutorial has been followed."""
    home = tmp_path_factory.mktemp('home')
    (home / 'tools').symlink_to(ROOT / 'tools')
    shutil.copytree(ROOT / 'configs', home / 'configs')
    for name, settings in SMALL.items():
        cfg = Config.fromfile(ROOT / 'configs' / name)
        cfg.merge_from_dict(settings)
        cfg.dump(home / 'configs' / name)
    pictures = sorted((drawn / 'classification/train').rglob('*.jpg'))
    (home / 'my_images').mkdir()
    for picture in pictures[::4]:
        shutil.copy(picture, home / 'my_images')
    for split in ('train', 'val'):
        for name in ('ring', 'star'):
            source = drawn / 'classification' / split / name
            for root in ('labeled', 'data/own'):
                shutil.copytree(source, home / root / split / name)
    with pytest.MonkeyPatch.context() as patch:
        page = Page(home, patch, forget, shorter={
            '--images my_images':
            '--images my_images --num-statistics 4 --num-pictures 2',
            # No fork of a process that has loaded torch.
            'shrink_images.py my_images': 'shrink_images.py --threads 1 '
            'my_images'})
        page.run(code_of('images'))
    for root in ('data/own', 'my_export'):
        write_boxes(home / root, drawn / 'detection')
    return home


def test_from_images_to_an_encoder(home):
    run = home / 'work_dirs' / ENCODER
    assert 'analysis/knn_top1' in (run / 'index.html').read_text()
    log, = run.glob('*/vis_data/scalars.json')
    names = {name for line in log.read_text().splitlines()
             for name in json.loads(line)}
    # What the table tells the reader to look at.
    text = (ROOT / 'docs/tutorials/images.md').read_text()
    table = re.findall(r'^\| `(\S+)`', text, re.M)
    assert len(table) == 6 and names.issuperset(table)
    assert (home / 'looks/index.html').is_file()


def test_from_an_encoder_to_a_detector(home, monkeypatch, forget):
    pytest.importorskip('mmcv.ops')
    page = Page(home, monkeypatch, forget, shorter={})
    prepare, *others = code_of('boxes')
    page.run([prepare])
    config = home / 'data/boxes/boxes.py'
    text = config.read_text()
    text = re.sub(  # the short settings
        r"_base_ = \(.*?/configs/(.*?)'\)", rf"_base_ = '{home}/configs/\1'",
        text, flags=re.S)
    config.write_text(re.sub(r'\ntrain_cfg = .*', '', text))
    page.run(others)
    assert 'Which score?' in (home / 'looks/boxes/index.html').read_text()
    assert len(list((home / 'found/vis').iterdir())) == 16
    run = home / 'work_dirs/boxes'
    classes = Config.fromfile(run / 'boxes.py').classes
    checkpoint, = run.glob('best_*.pth')
    with pytest.raises(SystemExit, match='another order'):
        run_tool('look.py', run / 'boxes.py', checkpoint, '--out', home / 'no',
                 '--cfg-options', 'val_dataloader.dataset.metainfo.classes='
                 f'{list(reversed(classes))}')


def test_several_heads(home, monkeypatch, forget, capsys):
    pytest.importorskip('mmcv.ops')
    Page(home, monkeypatch, forget, shorter={
        '--embedding': '--embedding --size 160 192', '320': '160',
        '480': '192'}).run(code_of('heads'))
    out = capsys.readouterr().out
    assert re.search(r'^classes (ring|star)\nkinds (ring|star)$', out, re.M)
    assert '(1, 5787, 4) (1, 24)' in out
    assert len(list((home / 'predicted').glob('*.jpg'))) == 16


def test_own_network(home, monkeypatch, forget):
    pytest.importorskip('mmcv.ops')
    monkeypatch.delitem(sys.modules, 'my_net', raising=False)
    Page(home, monkeypatch, forget, shorter={}).run(code_of('own_encoder'))
    for name in ('my_net_boxes/iter_4', 'my_net_linear/epoch_2'):
        assert (home / f'work_dirs/{name}.pth').is_file()
    assert (home / 'vectors.npz').is_file()
