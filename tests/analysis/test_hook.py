# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The hook that watches pre-training, in real runs."""
import copy
import json
from pathlib import Path

import mmcv
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import RUNNERS, DefaultScope

from qbheat_mm.analysis.copied_features import copied_loss, masked_loss
from qbheat_mm.analysis.direction_loss import direction_losses
from qbheat_mm.analysis.embedding_quality import describe_embeddings
from qbheat_mm.analysis.hook import AnalysisHook
from qbheat_mm.analysis.pixels import PixelSpace
from qbheat_mm.analysis.reconstruction import (
    reconstruct,
    strips,
    trained_positions,
)
from qbheat_mm.analysis.spectrum import describe_predictor
from qbheat_mm.cli.run_report import report_run
from qbheat_mm.errors import UserError
from qbheat_mm.evaluation.encoder import Encoder
from qbheat_mm.evaluation.labelled import knn_of_folders, labelled_folder
from qbheat_mm.models.layers.normalize import Normalization

from .conftest import MODEL

HOOK = dict(type='AnalysisHook', interval=2)
CLASSIFIER = dict(
    type='ImageClassifier', data_preprocessor=dict(
        mean=[127.5] * 3, std=[64.] * 3),
    backbone=dict(type='ResNet', depth=18, base_channels=4, stem_channels=4),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='LinearClsHead', num_classes=2, in_channels=32))


@pytest.fixture
def train(tmp_path, image_folder):
    """A function that trains three epochs and returns the runner."""

    def run(name, hooks, lr=1e-3, model=MODEL, **settings):
        pipeline = [dict(type='LoadNamedImageFromFile'),
                    dict(type='RandomResizedCrop', scale=32),
                    dict(type='PackInputs')]
        cfg = dict(
            default_scope='mmpretrain', work_dir=str(tmp_path / name),
            experiment_name=name, model=copy.deepcopy(model),
            train_dataloader=dict(
                batch_size=4, num_workers=0,
                sampler=dict(type='DefaultSampler', shuffle=True),
                collate_fn=dict(type='default_collate'),
                dataset=dict(
                    type='RepeatDataset', times=4, dataset=dict(
                        type='CustomDataset', with_label=False,
                        data_root=str(image_folder / 'inside'),
                        pipeline=pipeline))),
            train_cfg=dict(by_epoch=True, max_epochs=3),
            optim_wrapper=dict(optimizer=dict(type='AdamW', lr=lr)),
            default_hooks=dict(
                random_state=dict(type='RandomStateHook'),
                stop=dict(type='StopOnNonFiniteLossHook')),
            custom_hooks=hooks, randomness=dict(seed=3))
        cfg.update(settings)
        DefaultScope._instance_dict.clear()
        runner = RUNNERS.build(Config(cfg))
        runner.train()
        return runner

    return run


def files_of(runner, pattern):
    return sorted(Path(runner.work_dir).rglob(pattern))


def scalars_of(runner):
    """What the hook wrote, in order."""
    file, = files_of(runner, 'scalars.json')
    lines = map(json.loads, file.read_text().splitlines())
    return [line for line in lines if 'analysis/energy_ratio_half' in line]


@pytest.fixture
def labelled(tmp_path, picture):
    """Two classes of two images each."""
    for name, pixels in (('first', picture), ('second', 255 - picture)):
        for i in range(2):
            file = tmp_path / 'labelled' / name / f'{i}.png'
            mmcv.imwrite(pixels[:, i:], str(file))
    return str(tmp_path / 'labelled')


def test_training_is_bit_identical_with_and_without(train, labelled):
    states = [
        train(name, hooks).model.state_dict()
        for name, hooks in (('without', []),
                            ('with', [dict(HOOK, knn_train=labelled)]))
    ]
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), name


def test_what_is_logged(train):
    runner = train('run', [HOOK])
    scalars = scalars_of(runner)
    # After the second epoch, and after the third since it is the last.
    assert [line['step'] for line in scalars] == [2, 3]
    hook = next(h for h in runner.hooks if isinstance(h, AnalysisHook))
    model = runner.model
    inputs = model.data_preprocessor(
        dict(inputs=hook.inputs, data_samples=None))['inputs']
    expected = direction_losses(model, inputs)
    assert len(expected) == 16
    for name, loss in expected.items():
        name = f'analysis/loss_{name.replace("/", "_")}'
        assert scalars[-1][name] == pytest.approx(loss, rel=1e-5)
    numbers = describe_predictor(model.predictor)
    for scale in ('half', 'quarter'):
        assert scalars[-1][f'analysis/energy_ratio_{scale}'] == pytest.approx(
            numbers[scale]['energy_ratio'])
        assert scalars[-1][f'analysis/norm_B_{scale}'] == pytest.approx(
            numbers[scale]['B']['spectral_norm'])


def test_embeddings_are_logged(train, labelled):
    runner = train('run', [dict(HOOK, num_embeddings=7, knn_train=labelled,
                                knn_val=labelled)])
    scalars = scalars_of(runner)[-1]
    hook = next(h for h in runner.hooks if isinstance(h, AnalysisHook))
    # Nobody else is left with an encoder in evaluation mode.
    assert all(module.training for module in runner.model.modules())
    # The first seven images of the run, of batches of four.
    assert len(hook.embedded) == 7
    assert torch.equal(torch.stack(hook.embedded[:4]), hook.inputs)
    model = runner.model
    expected = describe_embeddings(model, [model.data_preprocessor(dict(
        inputs=torch.stack(hook.embedded), data_samples=None))['inputs']])
    assert len(expected) == 5
    for name, value in expected.items():
        assert scalars[f'analysis/{name}'] == pytest.approx(value, rel=1e-4)
    assert 1 <= scalars['analysis/effective_rank'] <= 7
    inputs = model.data_preprocessor(
        dict(inputs=hook.inputs, data_samples=None))['inputs']
    assert scalars['analysis/loss'] == pytest.approx(
        masked_loss(model, inputs), rel=1e-5)
    assert scalars['analysis/loss_copied'] == pytest.approx(
        copied_loss(model, inputs), rel=1e-5)
    model.backbone.out_indices = (2, 3)
    encoder = Encoder(model.backbone, Normalization.of(model.data_preprocessor))
    folder = labelled_folder(labelled)
    assert scalars['analysis/knn_top1'] == pytest.approx(knn_of_folders(
        encoder, folder, folder, size=32))


def test_without_embeddings(train):
    runner = train('run', [dict(HOOK, num_embeddings=0)])
    assert 'analysis/loss_copied' in scalars_of(runner)[-1]
    assert 'analysis/effective_rank' not in scalars_of(runner)[-1]


def test_pictures_are_saved(train):
    runner = train('run', [dict(HOOK, num_images=3)])
    pictures = files_of(runner, 'reconstruction_*.png')
    assert [picture.name for picture in pictures] == [
        'reconstruction_center_2.png', 'reconstruction_center_3.png',
        'reconstruction_top_left_2.png', 'reconstruction_top_left_3.png']
    # The page of the run shows them, and what was logged.
    logged, shown = report_run(runner.work_dir)
    rows = {row[0]: row for row in logged['tables'][0]['rows']}
    assert rows['analysis/effective_rank'][1] == 3
    assert len(shown['pictures']) == 4
    # Three columns, three images of 32 pixels.
    assert mmcv.imread(str(pictures[0])).shape == (96, 96, 3)


def test_tensorboard_gets_scalars_and_pictures(train):
    event_accumulator = pytest.importorskip(
        'tensorboard.backend.event_processing.event_accumulator')
    runner = train('run', [HOOK], visualizer=dict(
        type='mmengine.Visualizer',
        vis_backends=[dict(type='TensorboardVisBackend')]))
    runner.visualizer.close()
    events, = files_of(runner, 'events.out.tfevents.*')
    found = event_accumulator.EventAccumulator(str(events)).Reload().Tags()
    assert 'analysis/norm_A_quarter' in found['scalars']
    assert 'reconstruction_center' in found['images']


def test_chosen_images_and_places(train, image_folder):
    runner = train('run', [dict(
        HOOK, images=str(image_folder), num_images=6,
        positions=['center', 'bottom_right'])],
        model=dict(MODEL, position='corner'))
    hook = next(h for h in runner.hooks if isinstance(h, AnalysisHook))
    # One of the six files is corrupt; all others have the training size.
    assert hook.inputs.shape == (5, 3, 32, 32)
    assert len(hook.embedded) == 5
    assert {file.name.rsplit('_', 1)[0] for file in files_of(
        runner, 'reconstruction_*.png')} == {'reconstruction_bottom_right'}
    assert 'analysis/loss_quarter_right' not in scalars_of(runner)[0]


def test_wrong_settings_are_named(train):
    with pytest.raises(UserError, match="'middle' is not one of top_left"):
        AnalysisHook(positions=['middle'])
    with pytest.raises(UserError, match="'middle' is not one of top_left"):
        AnalysisHook(positions='middle')
    assert AnalysisHook(positions='center').positions == ('center', )
    with pytest.raises(UserError, match='interval=0'):
        AnalysisHook(interval=0)
    with pytest.raises(UserError, match='num_embeddings=1'):
        AnalysisHook(num_embeddings=1)
    with pytest.raises(UserError, match='needs knn_train'):
        AnalysisHook(knn_val='labelled')
    with pytest.raises(UserError, match="'nowhere"):
        train('run1', [dict(HOOK, knn_train='nowhere')])
    with pytest.raises(UserError, match='model.type is ImageClassifier'):
        train('run', [HOOK], model=CLASSIFIER)
    with pytest.raises(UserError, match="'nowhere' does not exist"):
        train('run2', [dict(HOOK, images=['nowhere'])])


def test_masked_loss_is_that_of_training(build, images):
    model = build(norm_pix=False)
    expected = []
    with torch.no_grad():
        for position in trained_positions(model):
            made = model.reconstruct(images, position)
            error = (made['pred'] - images).square().mean(1, keepdim=True)
            expected.append(float(error[made['mask'] == 1].mean()))
    assert masked_loss(model, images) == pytest.approx(
        np.mean(expected), rel=1e-5)


def test_pictures_take_nothing_from_the_masked_pixels(train):
    runner = train('run', [dict(HOOK, num_images=2)])
    hook = next(h for h in runner.hooks if isinstance(h, AnalysisHook))
    pixels = PixelSpace(runner.model.data_preprocessor)
    found, = files_of(runner, 'reconstruction_center_3.png')
    reconstruction = reconstruct(
        runner.model, pixels.normalize(hook.inputs), 'center')
    expected = strips(reconstruction, runner.model, pixels)
    assert np.array_equal(mmcv.imread(str(found))[..., ::-1], expected)


def test_images_that_are_embedded_are_spread(train, tmp_path):
    """Folders are sorted by class: the first ones would be of one."""
    for i in range(4):
        mmcv.imwrite(np.full((32, 32, 3), 60 * i, np.uint8),
                     str(tmp_path / 'chosen' / f'{i}.png'))
    runner = train('run', [dict(HOOK, images=str(tmp_path / 'chosen'),
                                num_images=1, num_embeddings=2)])
    hook = next(h for h in runner.hooks if isinstance(h, AnalysisHook))
    assert [int(image.max()) for image in hook.embedded] == [0, 120]
