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

from qbheat_mm.analysis.embedding_quality import describe_embeddings
from qbheat_mm.analysis.hook import AnalysisHook
from qbheat_mm.analysis.losses import (
    copied_loss,
    direction_losses,
    masked_loss,
)
from qbheat_mm.analysis.reconstruction import reconstruct, strips
from qbheat_mm.analysis.run_log import report_run
from qbheat_mm.analysis.spectrum import describe_predictor
from qbheat_mm.errors import UserError
from qbheat_mm.evaluation.labeled import LabeledFolder, knn_of_folders
from qbheat_mm.trained import Encoder, Normalization, Normalize

from ..helpers.checkpoints import MODEL

HOOK = dict(type='AnalysisHook', interval=2)


@pytest.fixture
def train(tmp_path, image_folder):
    """A function that trains three epochs and returns the runner."""

    def run(name, hooks, model=MODEL):
        pipeline = [dict(type='LoadNamedImageFromFile'),
                    dict(type='RandomResizedCrop', scale=32),
                    dict(type='PackInputs')]
        DefaultScope._instance_dict.clear()
        runner = RUNNERS.build(Config(dict(
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
            optim_wrapper=dict(optimizer=dict(type='AdamW', lr=1e-3)),
            custom_hooks=hooks, randomness=dict(seed=3))))
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


def images_of(runner):
    hook, = (h for h in runner.hooks if isinstance(h, AnalysisHook))
    return torch.stack(hook.images)


def normalized(model, images):
    return model.data_preprocessor(
        dict(inputs=images, data_samples=None))['inputs']


def test_training_is_bit_identical_with_and_without(train, folders):
    hook = dict(HOOK, knn_train=str(folders / 'val'))
    states = [train(name, hooks).model.state_dict()
              for name, hooks in (('without', []), ('with', [hook]))]
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), name


def test_what_is_logged(train, folders):
    labeled = str(folders / 'val')
    runner = train('run', [dict(HOOK, num_embeddings=7, knn_train=labeled,
                                knn_val=labeled)])
    model, images = runner.model, images_of(runner)
    lines = scalars_of(runner)
    # After the second epoch, and after the third since it is the last.
    assert [line['step'] for line in lines] == [2, 3]
    assert all(module.training for module in model.modules())
    # The first seven images of the run, of batches of four.
    assert len(images) == 7

    inputs = normalized(model, images[:4])
    half = describe_predictor(model.predictor)['half']
    expected = dict(
        loss=masked_loss(model, inputs),
        loss_copied=copied_loss(model, inputs),
        energy_ratio_half=half['energy_ratio'],
        norm_B_half=half['B']['spectral_norm'],
        **describe_embeddings(model, [normalized(model, images)]),
        **{f'loss_{name}': loss for name, loss
           in direction_losses(model, inputs).items()})
    assert len(expected) == 4 + 5 + 16
    model.backbone.out_indices = (2, 3)
    encoder = Encoder(model.backbone, Normalization.of(model))
    folder = LabeledFolder(labeled)
    expected['knn_top1'] = knn_of_folders(encoder, folder, folder, size=32)
    for name, value in expected.items():
        assert lines[-1][f'analysis/{name}'] == pytest.approx(
            value, rel=1e-4), name


def test_pictures_are_saved_and_on_the_page_of_the_run(train):
    runner = train('run', [dict(HOOK, num_images=3, num_embeddings=3)])
    pictures = files_of(runner, 'reconstruction_*.png')
    assert [picture.name for picture in pictures] == [
        'reconstruction_center_2.png', 'reconstruction_center_3.png',
        'reconstruction_top_left_2.png', 'reconstruction_top_left_3.png']
    model = runner.model
    found = reconstruct(model, normalized(model, images_of(runner)), 'center')
    expected = strips(found, model, Normalize(
        Normalization.of(model)))
    assert np.array_equal(mmcv.imread(str(pictures[1]))[..., ::-1], expected)
    _, (_, content) = report_run(runner.work_dir)
    assert content == [picture.read_bytes() for picture in pictures]


def test_chosen_images_of_a_model_of_corners(train, tmp_path):
    """Spread over the folder: the first ones would be of one class."""
    for i in range(4):
        mmcv.imwrite(np.full((32, 32, 3), 60 * i, np.uint8),
                     str(tmp_path / 'chosen' / f'{i}.png'))
    runner = train('run', [dict(HOOK, images=str(tmp_path / 'chosen'),
                                num_images=1, num_embeddings=2)],
                   model=dict(MODEL, position='corner'))
    assert {file.name.rsplit('_', 1)[0] for file in files_of(
        runner, 'reconstruction_*.png')} == {'reconstruction_top_left'}
    assert 'analysis/loss_quarter_right' not in scalars_of(runner)[0]
    assert images_of(runner).amax((1, 2, 3)).tolist() == [0, 120]


def test_wrong_settings_are_named(train):
    with pytest.raises(UserError, match='labeled'):
        AnalysisHook(knn_val='labeled')
    for wrong in (dict(knn_train='nowhere'), dict(images=['nowhere'])):
        with pytest.raises((UserError, OSError), match='nowhere'):
            train(str(wrong), [dict(HOOK, **wrong)])
