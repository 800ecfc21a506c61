# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Targets are the teacher's features of what the student sees."""
import os
import shutil

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mmengine.config import Config
from mmengine.registry import MODELS, RUNNERS
from mmpretrain.registry import DATASETS

from qbheat_mm.apis import load_encoder, pretrain, published_encoder
from qbheat_mm.config.reading import read_config
from qbheat_mm.config.teacher import use_teacher
from qbheat_mm.engine import console
from qbheat_mm.errors import UserError
from qbheat_mm.export import export_encoder
from qbheat_mm.models.backbones import TimmEncoder
from qbheat_mm.teacher.targets import (
    EncoderTarget,
    Standardization,
)
from qbheat_mm.teacher.teacher import Teacher
from qbheat_mm.trained import (
    Checkpoint,
    checkpoint,
)
from qbheat_mm.trained.safe_load import safe_load

from ..helpers.teachers import (
    FLIPS,
    IDENTITY,
    RECIPE,
    TINY,
    MeanColors,
    dataset_of,
    tiny_settings,
    write_teacher,
)
from ..helpers.tools import ROOT

MOCO = str(ROOT / 'configs/mocov2'
           / 'mocov2_mf-285m_1xb256-coslr-200e_own-images.py')


@pytest.mark.parametrize('online', [False, True])
def test_targets_lie_where_the_student_sees_them(online, teacher, images,
                                                 tmp_path):
    dataset = dataset_of(images, *FLIPS)
    target = EncoderTarget(teacher, size=256, online=online)
    target.prepare(dataset, str(tmp_path), IDENTITY)
    np.random.seed(0)
    directions = set()
    for row in [*range(len(dataset))] * 8:
        sample = dataset[row]
        crop = sample['inputs'][None].flip(1).float()
        directions.add(sample['data_samples'].get('flip_direction'))
        cells = target(crop, [sample['data_samples']], (4, 4))
        statistics = target.targets.standardize
        colors = cells * statistics.std + statistics.mean
        seen = F.avg_pool2d(crop, 32).flatten(2).transpose(1, 2)
        # Two bytes of a map, and borders of its cells.
        torch.testing.assert_close(colors, seen, atol=6, rtol=0)
    assert len(directions) == 4


def test_channels_are_standardized_over_the_images(teacher, images, tmp_path):
    dataset = dataset_of(images, *FLIPS)
    target = EncoderTarget(teacher)
    target.prepare(dataset, str(tmp_path), IDENTITY)
    stored, statistics = target.targets.source.maps, target.targets.standardize
    maps = stored.split(stored[list(range(4))].float())[0]
    pixels = maps.transpose(0, 1).flatten(1)
    torch.testing.assert_close(statistics.mean, pixels.mean(1))
    torch.testing.assert_close(statistics.std, pixels.std(1, correction=0))


def test_channels_that_hardly_change_stay_small():
    maps = torch.randn(64, 3, 4, 4) * torch.tensor([1., 2., 1e-4]).view(
        -1, 1, 1)
    std = Standardization.of([[maps]]).std
    assert float(std[2]) == pytest.approx(
        float(0.1 * (std[0] + std[1]) / 3), rel=1e-3)


def test_several_maps_share_the_grid(teacher, images, tmp_path):
    dataset = dataset_of(images, *FLIPS)
    target = EncoderTarget(teacher, out_indices=(0, 1))
    target.prepare(dataset, str(tmp_path), IDENTITY)
    sample = dataset[0]
    cells = target(torch.zeros(1, 3, 128, 128), [sample['data_samples']],
                   (4, 6))
    assert cells.shape == (1, 24, 4)
    assert torch.equal(cells[0, :, 3], cells[0, :1, 3].expand(24))


def test_a_target_without_the_hook_is_named(teacher):
    target = EncoderTarget(teacher)
    with pytest.raises(UserError, match='TeacherHook'):
        target(torch.zeros(1, 3, 128, 128), [], (8, 8))


# ----------------------------------------------------------- which teachers

def test_a_transformer_is_a_teacher(tmp_path):
    torch.manual_seed(0)
    network = TimmEncoder('test_vit')
    path = write_teacher(tmp_path / 'vit.safetensors', network,
                         dict(type='TimmEncoder', name='test_vit'),
                         size=(160, 160))
    teacher = Teacher(path)
    assert teacher.shapes == [(64, 10, 10)]
    images = 255 * torch.rand(2, 3, 160, 160)
    with torch.no_grad():
        tokens = network.network.forward_features(images)
    patches = tokens[:, network.network.num_prefix_tokens:]
    torch.testing.assert_close(
        teacher(images)[0].flatten(2).transpose(1, 2), patches)
    assert Teacher(path, size=64).shapes == [(64, 4, 4)]
    assert Teacher(path, out_indices=(2, 5)).channels == 128


@pytest.mark.parametrize('given, used', [
    (128, 128), (260, 256), (240, 256), (40, 32), ((300, 128), (288, 128))])
def test_no_cell_of_a_map_is_partly_beyond_the_image(given, used, tmp_path):
    """Else boxes of the image would be others on the map."""
    network = TimmEncoder('test_efficientnet')
    path = write_teacher(tmp_path / 'cnn.safetensors', network, dict(
        type='TimmEncoder', name='test_efficientnet'), size=(240, 240))
    teacher = Teacher(path, size=given, multi_scale=True)
    assert teacher.size == (used if isinstance(used, tuple) else (used, used))
    for stride, (_, height, width) in zip(teacher.strides, teacher.shapes):
        assert (height * stride, width * stride) == teacher.size
    assert Teacher(path).size == (256, 256)


def test_a_published_transformer_is_a_teacher(tmp_path):
    weights = tmp_path / 'weights.pth'
    torch.save(MODELS.build(dict(
        type='TimmEncoder', name='test_vit')).network.state_dict(), weights)
    encoder = published_encoder('timm/test_vit', weights)
    path = export_encoder(encoder, tmp_path / 'vit.safetensors')
    teacher = Teacher(path)
    assert teacher.encoder.normalization == encoder.normalization
    assert teacher.size == (160, 160)


def test_a_teacher_is_read_once_and_its_students_stand_alone(
        teacher, images, tmp_path, monkeypatch):
    reads = []

    def count(path, map_location='cpu'):
        reads.append(str(path))
        return safe_load(path, map_location)

    monkeypatch.setattr(checkpoint, 'safe_load', count)
    alone = shutil.copy(teacher, tmp_path / 'alone.safetensors')
    written = pretrain(images, str(tmp_path / 'run'), arch=TINY, epochs=1,
                       batch_size=2, workers=0, teacher=alone)
    assert reads.count(str(alone)) == 1
    os.remove(alone)
    load_encoder(written)


@pytest.mark.parametrize('method', ['Distillation', 'QBHeat'])
def test_models_of_given_channels_are_built_without_the_teacher(
        method, teacher, images, tmp_path):
    model = read_config(RECIPE, {
        **tiny_settings(images), 'teacher': teacher,
        'teacher_method': method}).model
    model.target_generator.encoder = 'gone.safetensors'
    with pytest.raises(FileNotFoundError, match=r'gone\.safetensors'):
        MODELS.build(model)
    if method == 'Distillation':
        model.update(in_channels=24, out_channels=3)
    else:
        model.neck.out_channels = 3
    MODELS.build(model)


def test_a_bad_teacher_is_one_line(images, tmp_path):
    def refused(path):
        with pytest.raises((UserError, FileNotFoundError)) as caught:
            MODELS.build(read_config(RECIPE, dict(
                tiny_settings(images), teacher=path)).model)
        message = str(caught.value)
        assert '\n' not in message
        assert path in message
        return message

    assert 'does not exist' in refused(str(tmp_path / 'missing.safetensors'))
    (tmp_path / 'text.safetensors').write_text('no weights')
    assert 'damaged' in refused(str(tmp_path / 'text.safetensors'))
    vectors = write_teacher(tmp_path / 'vectors.safetensors',
                            MODELS.build(dict(type='Vectors')),
                            dict(type='Vectors'))
    assert 'returns no map' in refused(vectors)


@pytest.mark.parametrize('value', ['', ' ', 5, 'no such file', '~/none.pth',
                                   './'])
def test_a_teacher_that_is_no_file_is_one_line(value, images):
    """Such as an unset variable of a shell."""
    for read in (read_config, from_cfg):
        with pytest.raises(UserError, match='^teacher=.*') as caught:
            read(RECIPE, dict(tiny_settings(images), teacher=value))
        assert '\n' not in str(caught.value)


def from_cfg(path, options):
    cfg = Config.fromfile(path)
    cfg.merge_from_dict(options)
    RUNNERS.build(cfg)


def test_a_home_folder_and_a_url_are_read(teacher, images, tmp_path,
                                          monkeypatch):
    monkeypatch.setenv('HOME', os.path.dirname(teacher))
    monkeypatch.setenv('USERPROFILE', os.path.dirname(teacher))
    monkeypatch.setattr(torch.hub, 'get_dir', lambda: str(tmp_path / 'hub'))
    downloads = []

    def download(url, file):
        downloads.append(url)
        shutil.copy(teacher, file)

    monkeypatch.setattr(torch.hub, 'download_url_to_file', download)
    url = f'https://example.com/{os.path.basename(teacher)}'
    for path in (f'~/{os.path.basename(teacher)}', url):
        cfg = read_config(RECIPE, dict(tiny_settings(images), teacher=path))
        target = MODELS.build(cfg.model).target_generator
        target.prepare(DATASETS.build(cfg.train_dataloader.dataset),
                       str(tmp_path / 'maps'), IDENTITY)
    assert downloads == [url]
    assert len(list((tmp_path / 'maps').iterdir())) == 1
    target.prepare(DATASETS.build(cfg.train_dataloader.dataset),
                   '~/maps', IDENTITY)
    assert len(os.listdir(os.path.expanduser('~/maps'))) == 1


@pytest.mark.parametrize('method', ['Distillation', 'QBHeat',
                                    'RandomMasking'])
@pytest.mark.parametrize('config, kind', [
    (MOCO, 'MoCo'), (RECIPE, 'ImageClassifier')])
def test_a_teacher_needs_a_config_whose_model_it_can_train(
        config, kind, method, teacher):
    cfg = Config.fromfile(config)
    cfg.model.type = kind
    cfg.teacher, cfg.teacher_method = teacher, method
    with pytest.raises(UserError, match=f'{method} needs .*{kind}') as caught:
        use_teacher(cfg)
    assert '\n' not in str(caught.value)


@MODELS.register_module()
class Vectors(MeanColors):
    """An encoder without maps."""

    def forward(self, x):
        return (super().forward(x)[0].mean((2, 3)), )


# --------------------------------------------------------------------- a run

@pytest.mark.parametrize('method', ['MultiScaleDistillation', 'Distillation',
                                    'QBHeat', 'RandomMasking'])
def test_a_resumed_run_with_a_teacher_is_exact(method, teacher, images,
                                               tmp_path):
    def run(folder, **settings):
        cfg = read_config(RECIPE, {
            **tiny_settings(images), 'teacher': teacher,
            'teacher_method': method,
            'default_hooks.checkpoint.interval': 1})
        cfg.merge_from_dict({'work_dir': str(tmp_path / folder), **settings})
        RUNNERS.build(cfg).train()

    run('whole')
    with pytest.raises(KeyboardInterrupt):
        run('parts', custom_hooks=[dict(type='StopAtTwo')])
    run('parts', resume=True)
    states = [Checkpoint.read(tmp_path / folder / 'epoch_2.pth').weights
              for folder in ('whole', 'parts')]
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]), name
    assert not any('teacher' in name or 'target' in name
                   for name in states[0])
    load_encoder(str(tmp_path / 'whole' / 'encoder.safetensors'))


def test_a_run_resumes_with_its_own_teacher_only(teacher, images, tmp_path):
    def run(path, **settings):
        cfg = read_config(RECIPE, {
            **tiny_settings(images), 'teacher': str(path),
            'train_cfg.max_epochs': 1, 'default_hooks.checkpoint.interval': 1,
            'work_dir': str(tmp_path / 'run'), **settings})
        RUNNERS.build(cfg).train()

    run(teacher)
    network = MeanColors()
    torch.nn.init.constant_(network.weight, 2)
    other = write_teacher(tmp_path / 'other.safetensors', network,
                          dict(type='MeanColors'))
    for path, settings in ((other, {}), (
            teacher, {'model.target_generator': dict(size=64)}), (
            teacher, {'model.target_generator': dict(online=True)})):
        with pytest.raises(UserError, match='another teacher'):
            run(path, resume=True, **settings)
    # A moved file is the same teacher; another run may have another one.
    moved = shutil.copy(teacher, tmp_path / 'moved.safetensors')
    run(moved, resume=True)
    run(other, load_from=str(tmp_path / 'run' / 'epoch_1.pth'),
        work_dir=str(tmp_path / 'new'))


@pytest.mark.parametrize('method, most, steps, expected', [
    ('Distillation', 80, 79, 40), ('Distillation', 80, 101, 51),
    ('Distillation', 80, 1000, 80), ('Distillation', 3, 1000, 3),
    ('QBHeat', 80, 0, 80)])
def test_distillation_takes_fewer_epochs_unless_images_are_few(
        method, most, steps, expected, teacher, images, tmp_path):
    cfg = read_config(RECIPE, {
        **tiny_settings(images), 'teacher': teacher, 'teacher_method': method,
        'train_cfg.max_epochs': most, 'distillation.steps': steps,
        'work_dir': str(tmp_path)})
    loop = RUNNERS.build(cfg).build_train_loop(cfg.train_cfg)
    assert (loop.max_epochs, loop.max_iters) == (expected, 2 * expected)


def test_teacher_and_pixels_are_predicted_together(teacher, images, tmp_path):
    cfg = read_config(RECIPE, {
        **tiny_settings(images), 'teacher': teacher,
        'teacher_method': 'QBHeat', 'model.with_pixels': True})
    model = MODELS.build(cfg.model)
    dataset = DATASETS.build(cfg.train_dataloader.dataset)
    model.target_generator.prepare(dataset, str(tmp_path), IDENTITY)
    samples = [dataset[row] for row in (0, 1)]
    inputs = torch.stack([sample['inputs'] for sample in samples]).float()
    losses = model(inputs, [s['data_samples'] for s in samples], mode='loss')
    assert losses.keys() == {'loss', 'loss_pixels'}
    assert model.neck.pixels.out_features == 3 + 768


@pytest.mark.parametrize('enough', [2, 3])
def test_pretrain_takes_a_teacher(enough, teacher, images, tmp_path, capsys,
                                  monkeypatch):
    """A warning of few steps replaces that of few images."""
    monkeypatch.setattr(console, 'FEW_STEPS', enough)
    checkpoint = pretrain(
        images, str(tmp_path / 'run'), arch=TINY, epochs=1, batch_size=2,
        workers=0, teacher=teacher)
    assert Checkpoint.read(checkpoint).config['model']['type'] == (
        'MultiScaleDistillation')
    printed = capsys.readouterr().out
    assert ('2 steps are few for distillation: expect useful features after '
            'about 3 (train_cfg.max_epochs=2 distillation.epochs=2)'
            in printed) == (enough == 3)
    assert 'images are few' not in printed


def test_your_own_cnn_is_taught(teacher, images, tmp_path):
    cfg = read_config(RECIPE, {
        'train_dataloader.dataset.data_root': images, 'teacher': teacher,
        'model.predictor.in_channels': 96,
        'model.backbone': dict(type='TimmEncoder', name='test_resnet',
                               _delete_=True)})
    model = MODELS.build(cfg.model)
    assert type(model).__name__ == 'MultiScaleDistillation'
    dataset = DATASETS.build(cfg.train_dataloader.dataset)
    model.target_generator.prepare(dataset, str(tmp_path), IDENTITY)
    samples = [dataset[row] for row in (0, 1)]
    inputs = torch.stack([sample['inputs'] for sample in samples]).float()
    losses = model(inputs, [s['data_samples'] for s in samples], mode='loss')
    assert losses.keys() == {'loss_8', 'loss_16', 'loss_32'}
    sum(losses.values()).backward()
    assert model.backbone.network.conv1[0].weight.grad.abs().sum() > 0
