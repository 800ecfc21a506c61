# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Each map of a student learns those of its teacher that are nearest."""
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mmengine.registry import MODELS, RUNNERS
from mmpretrain.registry import DATASETS

from qbheat_mm.config.reading import read_config
from qbheat_mm.errors import UserError
from qbheat_mm.models.backbones import TimmEncoder
from qbheat_mm.models.selfsup.multi_scale_distillation import pair_strides
from qbheat_mm.teacher import EncoderTarget, MapFolder, Teacher
from qbheat_mm.teacher.reduction import find_reductions, limit_channels
from qbheat_mm.trained import Checkpoint

from ..helpers.processes import run_in_two_processes
from ..helpers.teachers import (
    FLIPS,
    IDENTITY,
    RECIPE,
    MeanColors,
    dataset_of,
    names,
    read,
    tiny_settings,
    write_teacher,
)


@MODELS.register_module()
class Pyramid(MeanColors):
    """A teacher of strides 4 to 32: mean colors, repeated and mixed."""

    num_outputs = 5
    strides = (4, 8, 8, 16, 32)

    def __init__(self, out_indices=(4, ), init_cfg=None):
        super().__init__(out_indices, init_cfg)
        noise = torch.Generator().manual_seed(0)
        mixtures = [torch.randn(channels, 3, generator=noise)
                    for channels in (4, 6, 5, 20, 96)]
        mixtures[2][:3] = torch.eye(3)
        for i, mixture in enumerate(mixtures):
            self.register_buffer(f'mixture{i}', mixture)

    def forward(self, x):
        outs = []
        for i in self.out_indices:
            mixture = getattr(self, f'mixture{i}')[..., None, None]
            outs.append(F.conv2d(F.avg_pool2d(x, self.strides[i]), mixture))
        return tuple(outs)


@pytest.fixture(scope='module')
def pyramid(tmp_path_factory):
    return write_teacher(
        tmp_path_factory.mktemp('pyramid') / 'pyramid.safetensors',
        Pyramid(), dict(type='Pyramid'))


def test_a_resnet_of_mmpretrain_teaches_all_its_maps(tmp_path):
    settings = dict(type='mmpretrain.ResNet', depth=18, base_channels=4,
                    stem_channels=4)
    file = write_teacher(tmp_path / 'r18.safetensors',
                         MODELS.build(settings), settings)
    teacher = Teacher(file, multi_scale=True)
    assert teacher.strides == [4, 8, 16, 32]
    assert not any(part.training for part in teacher.encoder.modules())
    images = torch.rand(2, 3, 64, 64) * 255
    torch.testing.assert_close(teacher(images)[-1], Teacher(file)(images)[0])


@pytest.mark.parametrize('student, teacher, expected', [
    ([2, 4, 8, 16], [2, 4, 8, 16, 32], [(8, 8), (16, 16), (16, 32)]),
    ([4, 8, 16, 32], [4, 8, 16, 32], [(8, 8), (16, 16), (32, 32)]),
    ([2, 4, 8, 16, 32], [16], [(8, 16), (16, 16), (32, 16)]),
    ([16], [4, 8, 16, 32], [(16, 16), (16, 32)]),
    ([32], [4, 8, 16, 32], [(32, 32)]),
    ([16], [8, 32], [(16, 8), (16, 32)]),
    ([4], [4, 8, 16], [(4, 8), (4, 16)]),
    ([8, 16], [4], [(8, 4), (16, 4)])])
def test_pairs_are_nearest_and_the_last_map_learns_all_coarser_ones(
        student, teacher, expected):
    assert pair_strides(student, teacher) == expected


def built(teacher, images, folder, **options):
    cfg = read_config(RECIPE, {
        **tiny_settings(images), 'teacher': str(teacher),
        'teacher_method': 'MultiScaleDistillation', **options})
    model = MODELS.build(cfg.model)
    dataset = DATASETS.build(cfg.train_dataloader.dataset)
    model.target_generator.prepare(dataset, str(folder), IDENTITY)
    samples = [dataset[row] for row in (0, 1)]
    inputs = torch.stack([sample['inputs'] for sample in samples]).float()
    return model, inputs, [sample['data_samples'] for sample in samples]


TIMM = {'model.backbone': dict(type='TimmEncoder', name='test_resnet',
                               _delete_=True)}


@pytest.mark.parametrize('options, strides', [
    ({}, [8, 16]), (TIMM, [8, 16, 32]),
    ({'model.pairs': [(16, 8)]}, [16]),
    ({**TIMM, 'model.pairs': [(4, 4), (32, 8)]}, [4, 32])])
def test_every_map_of_the_student_learns(options, strides, pyramid, images,
                                         tmp_path):
    model, inputs, samples = built(pyramid, images, tmp_path, **options)
    outs = model.backbone(inputs)
    assert [inputs.shape[3] // out.shape[3] for out in outs] == strides
    model._run = lambda part, kind, images: outs
    losses = model(inputs, samples, mode='loss')
    assert [*losses] == [f'loss_{stride}' for stride in strides]
    for out, loss in zip(outs, losses.values()):
        gradient, = torch.autograd.grad(loss, out, retain_graph=True)
        assert gradient.abs().sum() > 0
    sum(losses.values()).backward()
    # DistributedDataParallel finds no unused parameters.
    assert all(each.grad is not None for each in model.parameters()
               if each.requires_grad)


@pytest.mark.parametrize('online', [False, True])
def test_a_target_is_the_map_of_its_stride(online, pyramid, images, tmp_path):
    dataset = dataset_of(images, *FLIPS)
    target = EncoderTarget(pyramid, size=256, online=online, multi_scale=True)
    target.select([8, 32])
    target.prepare(dataset, str(tmp_path), IDENTITY)
    statistics = target.targets.standardize
    np.random.seed(0)
    for row in [*range(len(dataset))] * 4:
        sample = dataset[row]
        crop = sample['inputs'][None].flip(1).float()
        cells, coarse = target.of_maps(
            crop, [sample['data_samples']], [(8, (4, 4)), (32, (2, 2))])
        assert coarse.shape[1] == 4
        colors = cells[..., :3] * statistics.std[:3] + statistics.mean[:3]
        seen = F.avg_pool2d(crop, 32).flatten(2).transpose(1, 2)
        torch.testing.assert_close(colors, seen, atol=6, rtol=0)


def test_the_encoder_keeps_its_outputs_and_its_weights(pyramid, images,
                                                       tmp_path):
    cfg = read_config(RECIPE, dict(
        tiny_settings(images), teacher=pyramid,
        teacher_method='MultiScaleDistillation'))
    assert 'out_indices' not in cfg.model.backbone
    torch.manual_seed(0)
    several = MODELS.build(cfg.model).backbone.state_dict()
    torch.manual_seed(0)
    alone = MODELS.build(cfg.model.backbone).state_dict()
    assert several.keys() == alone.keys()
    for name, value in alone.items():
        assert torch.equal(value, several[name]), name


def test_one_map_is_what_it_was(pyramid, images, tmp_path):
    """By its method, or if ``out_indices`` chooses maps for the last one."""
    for options, channels in (
            ({'teacher_method': 'Distillation'}, 96),
            ({'model.target_generator': dict(out_indices=(3, 4))}, 116)):
        model, inputs, samples = built(pyramid, images, tmp_path, **options)
        assert type(model).__name__ == 'Distillation'
        feats = model.backbone(inputs)
        assert len(feats) == 1
        assert model.proj.out_features == channels
        assert model(inputs, samples, mode='loss').keys() == {'loss'}
    with pytest.raises(UserError, match=r'^model\.pairs .*MultiScale'):
        built(pyramid, images, tmp_path, **options,
              **{'model.pairs': [(8, 8)]})


# ---------------------------------------------------------------- its files

def test_files_are_no_larger_than_those_of_the_last_map(pyramid, images,
                                                        tmp_path):
    dataset = dataset_of(images, *FLIPS)
    last = MapFolder(Teacher(pyramid), dataset, str(tmp_path / 'one'))
    teacher = Teacher(pyramid, multi_scale=True)
    teacher.select([8, 16, 32])
    several = MapFolder(teacher, dataset, str(tmp_path / 'several'))
    assert 0 < several.width <= last.width


@pytest.mark.parametrize('shapes, most, expected', [
    ([(40, 28, 28), (112, 14, 14), (1280, 7, 7)], 62720, [40, 112, 192]),
    ([(1280, 7, 7)], 62720, [1280]),
    ([(512, 28, 28), (1024, 14, 14), (2048, 7, 7)], 100352, [97, 97, 97]),
    ([(8, 64, 64), (8, 2, 2)], 32, [1, 1])])
def test_the_most_channels_that_fit_are_kept(shapes, most, expected):
    limited = limit_channels([torch.Size(shape) for shape in shapes], most)
    assert [shape[0] for shape in limited] == expected


def test_components_keep_the_variance_and_share_it():
    torch.manual_seed(0)
    mixture = torch.randn(3, 24)
    batches = [[torch.randn(16, 5, 5, 3).matmul(mixture).permute(0, 3, 1, 2)]
               for _ in range(8)]
    reduction, = find_reductions(batches, [torch.Size([3, 5, 5])])
    maps = torch.cat([batch[0] for batch in batches])
    pixels = maps.permute(0, 2, 3, 1).flatten(0, 2)
    reduced = reduction(maps).permute(0, 2, 3, 1).flatten(0, 2)
    # Three components explain channels that are mixed from three.
    assert reduced.var(0).sum() == pytest.approx(24, rel=0.02)
    fitted = reduced @ torch.linalg.lstsq(
        reduced, pixels - pixels.mean(0)).solution
    torch.testing.assert_close(fitted, pixels - pixels.mean(0), atol=1e-3,
                               rtol=0)
    assert find_reductions(batches, [torch.Size([24, 5, 5])]) == [None]


def test_similar_images_have_similar_components():
    # A resumed run whose folder has new images learns the same targets.
    torch.manual_seed(0)
    mixture = torch.randn(8, 24)
    maps = torch.randn(64, 5, 5, 8).matmul(mixture)
    maps = (maps + 0.1 * torch.randn(maps.shape)).permute(0, 3, 1, 2)
    shapes = [torch.Size([8, 5, 5])]
    before, = find_reductions([[maps[:32]]], shapes)
    after, = find_reductions([[maps[32:]]], shapes)
    similarity = torch.cosine_similarity(before(maps), after(maps), dim=1)
    assert similarity.mean() > 0.95


def reduce_maps(rank, folder, teacher, images):
    several = Teacher(teacher, multi_scale=True)
    maps = MapFolder(several, dataset_of(images, *FLIPS), f'{folder}/maps')
    np.save(f'{folder}/{rank}.npy', read(maps))


def test_two_processes_find_the_same_components(pyramid, images, tmp_path):
    run_in_two_processes(reduce_maps, tmp_path, pyramid, images)
    alone = read(MapFolder(Teacher(pyramid, multi_scale=True),
                           dataset_of(images, *FLIPS),
                           str(tmp_path / 'alone')))
    for rank in (0, 1):
        np.testing.assert_allclose(np.load(tmp_path / f'{rank}.npy'), alone,
                                   atol=0.2, rtol=1e-2)


def test_strides_name_the_maps(pyramid, images, tmp_path):
    dataset = dataset_of(images, *FLIPS)
    for strides in ([8, 16], [16, 32], [16, 8]):
        teacher = Teacher(pyramid, multi_scale=True)
        teacher.select(strides)
        MapFolder(teacher, dataset, str(tmp_path))
    assert len(names(tmp_path)) == 2


# ------------------------------------------------------- teachers and errors

def test_a_transformer_teaches_maps_of_all_strides(images, tmp_path):
    torch.manual_seed(0)
    path = write_teacher(
        tmp_path / 'vit.safetensors', TimmEncoder('test_vit'),
        dict(type='TimmEncoder', name='test_vit'), size=(160, 160))
    model, inputs, samples = built(path, images, tmp_path)
    losses = model(inputs, samples, mode='loss')
    assert losses.keys() == {'loss_8', 'loss_16'}
    assert [layer.out_features for layer in model.proj.values()] == [64, 64]


def test_a_teacher_of_fixed_outputs_teaches_them(teacher, images, tmp_path):
    model, inputs, samples = built(teacher, images, tmp_path)
    assert model.taught == {8: [8], 16: [8]}
    model(inputs, samples, mode='loss')


@pytest.mark.parametrize('pairs, named', [
    ([(8, 8), (16, 64)], r"pyramid\.safetensors' has maps of strides "
     r'\[4, 8, 16, 32\], not \[64\]'),
    ([(16, 16), (32, 32)], r'encoder has maps of strides \[2, 4, 8, 16\], '
     r'not \[32\]'),
    # The map that is exported would stay random.
    ([(8, 8), (8, 16)], 'of stride 16, without a target'),
    (8, 'must be pairs'), ([], 'must be pairs'), ([8, 16], 'must be pairs'),
    ([(8, 8, 8)], 'must be pairs'), ([('8', 8)], 'must be pairs')])
def test_wrong_pairs_are_one_line(pairs, named, pyramid, images, tmp_path):
    with pytest.raises(UserError, match=f'^model.pairs.*{named}') as caught:
        built(pyramid, images, tmp_path, **{'model.pairs': pairs})
    assert '\n' not in str(caught.value)


@pytest.mark.parametrize('online', [False, True])
def test_a_resumed_run_is_exact(online, pyramid, images, tmp_path):
    """Also if the components are found again."""
    def run(folder, **settings):
        cfg = read_config(RECIPE, {
            **tiny_settings(images), 'teacher': pyramid,
            'teacher_method': 'MultiScaleDistillation',
            'model.target_generator': dict(online=online),
            'default_hooks.checkpoint.interval': 1})
        cfg.merge_from_dict({'work_dir': str(tmp_path / folder), **settings})
        RUNNERS.build(cfg).train()

    run('whole')
    with pytest.raises(KeyboardInterrupt):
        run('parts', custom_hooks=[dict(type='StopAtTwo')])
    run('parts', resume=True)
    states = []
    for folder in ('whole', 'parts'):
        states.append(Checkpoint.read(tmp_path / folder / 'epoch_2.pth'))
    assert 'proj.16.weight' in states[0].weights
    for name, value in states[0].weights.items():
        assert torch.equal(value, states[1].weights[name]), name
    with pytest.raises(UserError, match='does not fit'):
        run('parts', resume=True, **{'model.pairs': [(8, 8), (16, 16)]})
