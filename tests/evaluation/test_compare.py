# Copyright (c) QB-Heat MM authors. All rights reserved.
"""One page says which encoder to use."""
import csv
import re
import shutil
from itertools import permutations

import cv2
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgba

from qbheat_mm.apis import build_encoder
from qbheat_mm.errors import UserError
from qbheat_mm.evaluation import candidates, compare, comparison_page
from qbheat_mm.evaluation.comparison import Comparison
from qbheat_mm.evaluation.features import extract_features, map_extractor
from qbheat_mm.evaluation.kernels import ridge, ridge_or_svm
from qbheat_mm.models.backbones import TimmEncoder
from qbheat_mm.report.style import BLUE, VERMILION
from qbheat_mm.trained import Encoder, Normalization

from ..helpers.checkpoints import MODEL, settings_of, write_checkpoint
from ..helpers.tools import import_tool, run_tool


def comparison(images, **by_name):
    found = Comparison(images, {
        name: {30: [few], 300: [many]}
        for name, (few, many) in by_name.items()})
    for name in {*by_name} - {'thumbnails', 'HOG'}:
        found.probes[name] = 50.
    return found


@pytest.mark.parametrize('count, said', [
    (30, 'With 30 labels, use learned (40.0 % right).'),
    # Thumbnails are not two points worse, and cost nothing.
    (300, 'With 300 labels, use thumbnails (80.5 % right; learned has 82.0 %, '
     'not 2 points more).')])
def test_the_cheapest_that_is_good_enough_is_recommended(count, said):
    assert comparison(
        100, thumbnails=(20., 80.5), HOG=(30., 70.),
        learned=(40., 82.)).advise(count) == said
    # One of 20 images is five points.
    few = comparison(20, thumbnails=(50., 0.), learned=(55., 0.))
    assert 'use thumbnails (50.0 % right; learned has 55.0 %, not 10' in (
        few.advise(30))


def test_encoders_are_recommended_by_score():
    """In any order: one costs what another does."""
    scores = dict(good=(80., 80.), better=(81., 81.), poor=(20., 20.))
    for names in permutations(scores):
        found = comparison(100, HOG=(30., 30.), **{
            name: scores[name] for name in names})
        assert found.advise(30) == 'With 30 labels, use better (81.0 % right).'


@pytest.mark.parametrize('classifier', [ridge, ridge_or_svm])
def test_no_class_is_left_without_a_label(classifier, monkeypatch):
    labels = np.arange(40).repeat(4)
    parts = dict(exact=np.eye(40)[labels])
    monkeypatch.setattr(compare, 'COUNTS', (30, 40, 120))
    found = compare.measure(classifier, parts, labels, parts, labels)
    assert found == {40: [100.] * 3, 120: [100.] * 3, 160: [100.]}


def test_a_rare_class_does_not_cost_the_svm():
    angles, labels = np.arange(60.), np.arange(60) // 29  # 29, 29 and 2
    rings = (1 + labels)[:, None] * np.stack(
        [np.cos(angles), np.sin(angles)], 1)
    data = dict(rings=rings), labels
    assert ridge(*data, *data) < 70
    assert ridge_or_svm(*data, *data) > 90


@pytest.mark.parametrize('names', [['a/encoder', 'b/encoder'],
                                   ['x=a/encoder', 'x=b/encoder']])
def test_names_of_encoders_are_clear(names):
    tool = import_tool('compare.py')
    assert tool.name_encoders([
        'x=lr=0.1/encoder', 'b/encoder.pth', 'timm/net']) == {
        'x': 'lr=0.1/encoder', 'encoder': 'b/encoder.pth', 'net': 'timm/net'}
    with pytest.raises(UserError, match='write OTHER=b/encoder$'):
        tool.name_encoders(names)


@pytest.mark.parametrize('name', ['HOG', 'random weights', 'timm/net'])
def test_names_of_others_are_refused(name):
    with pytest.raises(UserError, match=f'{name!r} of an encoder is reserved'):
        candidates.list_candidates({name: 'encoder.safetensors'}, {})


@pytest.fixture
def images(tmp_path):
    """``train`` and ``val``: brightness is all there is to see."""
    for split, number in (('train', 8), ('val', 2)):
        for name, color in (('dark', 40), ('light', 210)):
            (tmp_path / split / name).mkdir(parents=True)
            for i in range(number):
                cv2.imwrite(str(tmp_path / split / name / f'{i}.png'),
                            np.full((40, 48, 3), color + i, np.uint8))
    return tmp_path


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(compare, 'COUNTS', (4, ))
    monkeypatch.setattr(compare, 'STEPS', (2, 2))
    monkeypatch.setattr(comparison_page, 'SHOWN', 2)


def test_a_page_and_a_table_compare_encoders(images, quick, monkeypatch,
                                             capsys, forget):
    encoder, out = images / 'epoch_1.pth', images / 'looks/compare'
    write_checkpoint(encoder, MODEL, settings_of())
    monkeypatch.chdir(images)
    arguments = ['compare.py', images, '--encoders', f'ours={encoder}']
    run_tool(*arguments)
    page = (out / 'index.html').read_text('utf-8')
    for name in ('thumbnails', 'HOG', 'random weights', 'ours'):
        assert f'nearest, {name}' in page
    printed = capsys.readouterr().out
    for text in (page, printed):
        assert text.count('With 16 labels, use thumbnails (100.0 %') == 1
    assert re.search(r'ours \(4 of 4, about 0:00:\d\d left', printed)
    assert '20/20' in printed
    with open(out / 'accuracies.csv', newline='') as file:
        rows = list(csv.DictReader(file))
    # Three choices of four labels, and all, by four; tran-1 by two.
    assert len(rows) == 4 * 4 + 2
    assert rows[0] == dict(features='thumbnails', probe='ridge or SVM',
                           labels='4', choice='0', top1='100.0')
    assert [row['features'] for row in rows if row['probe'] == 'tran-1'] == [
        'random weights', 'ours']

    monkeypatch.setattr(compare, 'MAX_IMAGES', 3)
    run_tool(*arguments)
    assert 'With 3 labels' in (out / 'index.html').read_text('utf-8')
    printed = capsys.readouterr().out
    for split, number in (('train', 16), ('val', 4)):
        assert (f'{images / split}: 3 of {number} images, balanced over '
                'classes') in printed
    (images / 'val/light').rename(images / 'val/bright')
    with pytest.raises(SystemExit, match="has .'bright', 'light'.$"):
        run_tool(*arguments)


def test_neighbors_are_framed_by_their_class(monkeypatch):
    monkeypatch.setattr(comparison_page, 'SHOWN', 2)

    def shown(angles, labels):
        vectors = np.stack([np.cos(angles), np.sin(angles)], 1)
        return comparison_page.Shown(
            vectors, np.array(labels),
            lambda i: np.full((8, 8, 3), 10 * i, np.uint8))

    train, test = shown([0, .1, 2], [7, 8, 8]), shown([0, 3], [7, 8])
    figure = comparison_page.draw_neighbors('title', train, test)
    axes = np.array(figure.axes).reshape(2, -1)
    frames = []
    for axis in axes[:, 1:4].flat:
        pixels, spine = axis.images[0].get_array(), axis.spines['left']
        frames.append((pixels[0, 0, 0] // 10, spine.get_edgecolor()))
    right, wrong = map(to_rgba, (BLUE, VERMILION))
    assert frames == [(0, right), (1, wrong), (2, wrong),  # of a 7
                      (2, right), (1, right), (0, wrong)]  # of an 8
    for axis in (*axes[:, 0], *axes[:, 4:].flat):  # there are three only
        assert not axis.spines['left'].get_visible()


@pytest.mark.parametrize('folder', ['train', '.'])
def test_images_without_a_split_are_prepared(images, quick, folder,
                                             tmp_path_factory):
    """Folders of classes, or ``train`` alone."""
    shutil.rmtree(images / 'val')
    out = tmp_path_factory.mktemp('out')
    found = compare.compare(images / folder, {}, out)
    assert found.images == 4  # a fifth of 16, two of each class
    assert found.counts == [4, 12]


@pytest.mark.parametrize('images, steps', [
    (2, 200), (320, 200), (321, 240), (1280, 800), (5000, 800)])
def test_few_images_take_few_steps(images, steps):
    assert compare.count_steps(images) == steps


class Fails(torch.nn.Module):
    """Takes a batch of one image, as a network that runs out of memory."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)

    def forward(self, x):
        if len(x) > 1:
            raise MemoryError('too many')
        return self.conv(x)


def test_results_outlive_a_candidate_that_fails(images, quick):
    encoder = Encoder(Fails(), Normalization())
    with pytest.raises(MemoryError, match='too many'):
        compare.compare(images, dict(fails=encoder), images / 'out')
    page = (images / 'out/index.html').read_text('utf-8')
    assert 'nearest, random weights' in page and 'nearest, fails' not in page
    assert (images / 'out/accuracies.csv').stat().st_size


class OfOneSize(Fails):
    """As a transformer with fixed position embeddings."""

    def forward(self, x):
        assert x.shape[2:] == (224, 224), 'wrong size'
        return self.conv(x)


def test_encoders_get_the_size_of_the_images_or_are_refused(images):
    """Before any candidate takes time; given encoders stay as they are."""
    loader = compare.make_loader(images, 'train')
    transformer = TimmEncoder('vit_tiny_patch16_224', depth=1)
    given = Encoder(transformer, Normalization())
    *_, found = candidates.list_candidates(dict(vit=given), loader)
    assert found.extract(torch.zeros(1, 3, 160, 160))['pixels'].shape == (
        1, 192, 5, 5)
    assert given(torch.zeros(1, 3, 224, 224))[0].shape[2:] == (14, 14)
    fixed = Encoder(OfOneSize(), Normalization())
    with pytest.raises(UserError, match="'fixed'.*160x160.*wrong size"):
        candidates.list_candidates(dict(vit=given, fixed=fixed), loader)


CONFIG = """
model = dict(
    data_preprocessor=dict(mean=[0.] * 3, std=[255.] * 3, to_rgb=True),
    backbone=dict(type='ResNet', depth=18, base_channels=4, stem_channels=4,
                  init_cfg=None, _scope_='mmpretrain'))
"""


def test_encoders_come_from_files_configs_and_models(tmp_path):
    file, config = tmp_path / 'epoch_1.pth', tmp_path / 'own.py'
    write_checkpoint(file, MODEL, settings_of())
    config.write_text(CONFIG)
    assert candidates.open_encoder(file).checkpoint == str(file)
    random = candidates.open_encoder(config)
    assert type(random.backbone).__name__ == 'ResNet' and not random.checkpoint
    assert candidates.open_encoder(random) is random
    with pytest.raises(UserError, match="gone.pth' does not exist"):
        candidates.open_encoder('gone.pth')
    with pytest.raises(UserError, match="'gone' is neither timm/NAME nor"):
        candidates.open_encoder('gone')


def test_random_weights_get_the_statistics_of_the_images(images, forget):
    config = images / 'own.py'
    config.write_text(CONFIG)
    encoder = build_encoder(str(config))
    loader = compare.make_loader(images, 'train')
    torch.manual_seed(0)
    candidates.calibrate(encoder, loader)
    norm = encoder.backbone.bn1
    assert norm.num_batches_tracked == 1
    assert not any(module.training for module in encoder.modules())
    inputs = []
    encoder.backbone.conv1.register_forward_hook(
        lambda module, args, out: inputs.append(out))
    extract_features(map_extractor(encoder), loader)
    torch.testing.assert_close(
        norm.running_mean, inputs[0].mean((0, 2, 3)), rtol=1e-3, atol=1e-5)


def test_trained_statistics_stay(images, forget):
    """Of an encoder that names no file, or whose init_cfg names one."""
    config, file = images / 'own.py', images / 'weights.pth'
    config.write_text(CONFIG)
    trained = build_encoder(str(config))
    trained.train()(torch.randn(4, 3, 64, 64))
    trained.eval()
    torch.save(trained.backbone.state_dict(), file)
    config.write_text(CONFIG.replace(
        'init_cfg=None', f"init_cfg=dict(type='Pretrained', "
        f"checkpoint={str(file)!r})"))
    for encoder in (trained, build_encoder(str(config))):
        candidates.calibrate(encoder, compare.make_loader(images, 'train'))
        for name, tensor in encoder.backbone.state_dict().items():
            assert torch.equal(tensor, torch.load(file)[name]), name


def test_a_missing_package_is_named_before_time_is_spent(tmp_path,
                                                         monkeypatch):
    monkeypatch.setattr(compare, 'find_spec', lambda name: None)
    with pytest.raises(UserError, match='pip install scikit-image'):
        compare.compare(tmp_path, {}, tmp_path / 'out')
