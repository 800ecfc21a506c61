# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The tools of tools/analysis, on a tiny run and images of all kinds."""
import json
import os
import shutil

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS
from PIL import Image

from qbheat_mm.analysis.heat_flow import projected_features
from qbheat_mm.datasets import load_images
from qbheat_mm.errors import UserError

from ..helpers.checkpoints import MODEL
from ..helpers.tools import run_tool


def report_of(folder, name):
    return json.loads((folder / f'{name}.json').read_text())


def test_reconstruct(call, run, image_folder, tmp_path):
    call('reconstruct', *run, image_folder, '--out', tmp_path)
    report = report_of(tmp_path, 'reconstruction')
    # Five files can be loaded, in five positions each; one is corrupt.
    errors = report['numbers']['errors']
    assert list(errors) == [
        'a_rgb.png', 'b_grey.png', 'c_rgba.png', 'd_cmyk.JPG', 'e_wide.jpg']
    assert all(len(row) == 5 for row in errors.values())
    assert len(report['pictures']) == 5
    assert report['numbers']['statistics'] == ['contrast']
    assert 'FROM THE MASKED' not in report['caption']
    # A transparent file without transparency is the same image.
    assert errors['a_rgb.png'] == errors['c_rgba.png']
    arrays = np.load(tmp_path / 'reconstruction.npz')
    assert arrays['pred_1_center'].shape == (3, 32, 32)
    assert arrays['mask_1_center'].mean() == 0.75


def test_a_strip_shows_what_a_network_makes_of_images(run, image_folder,
                                                      tmp_path):
    known = tmp_path / 'known'
    known.mkdir()
    for name in ('a_rgb.png', 'b_grey.png', 'c_rgba.png', 'd_cmyk.JPG'):
        (known / name).symlink_to(image_folder / name)
    run_tool('../projects/real_images/strip.py', *run, image_folder,
             '--max-images', 2, '--train', known, '--out', tmp_path)
    strip = np.array(Image.open(tmp_path / 'strip.jpg')).astype(int)
    assert strip.shape == (2 * 32 + 4, 7 * 32 + 6 * 4, 3)
    first = [strip[:32, 36 * i:36 * i + 32] for i in range(7)]
    assert np.abs(first[0] - first[3]).mean() < 5  # nearest to itself
    gray = np.abs(first[1] - 128).max(-1) < 10
    assert 0.7 < gray.mean() < 0.8


def test_true_statistics_are_labeled_and_equal_names_told_apart(
        call, run, image_folder, tmp_path):
    files = [tmp_path / split / 'cat/1.png' for split in ('train', 'val')]
    for file, name in zip(files, ('a_rgb.png', 'b_grey.png')):
        file.parent.mkdir(parents=True)
        file.symlink_to(image_folder / name)
    call('reconstruct', *run, *files, '--positions', 'center', '--out',
         tmp_path, '--use-visible-patch-statistics',
         '--use-true-patch-statistics')
    report = report_of(tmp_path, 'reconstruction')
    assert report['numbers']['statistics'] == ['contrast', 'visible', 'true']
    assert 'FROM THE MASKED PIXELS' in report['caption']
    assert [row[0] for row in report['tables'][0]['rows']] == [
        'train/cat/1.png', 'val/cat/1.png']


def test_spectrum_of_several_checkpoints(call, run_folder, tmp_path, capsys):
    call('spectrum', run_folder / 'config.py', run_folder / 'epoch_1.pth',
         run_folder / 'epoch_2.pth', '--out', tmp_path)
    report = report_of(tmp_path, 'spectrum')
    assert report['pictures'] == ['spectrum.png', 'energy_ratio.png']
    table = report['tables'][0]
    assert [row[:2] for row in table['rows']] == [['epoch_1.pth', 1],
                                                  ['epoch_2.pth', 2]]
    # By hand, from the checkpoint's own tensor.
    weight = torch.load(run_folder / 'epoch_2.pth')['state_dict'][
        'predictor.half_step.weight'].double()
    energies = torch.linalg.eigvals(weight).abs().sum(-1)
    assert table['rows'][1][3] == pytest.approx(
        float(energies[0] / energies[2]), rel=1e-5)
    assert f'{table["rows"][1][3]:.4g}' in capsys.readouterr().out
    learned, random = report['tables'][1]['rows'][:2]
    assert learned[0] == 'A, Δ = W/4' and random[0] == 'random like A, Δ = W/4'
    assert learned[1:] != random[1:]
    values = np.load(tmp_path / 'spectrum.npz')['eigenvalues_B_half']
    assert np.abs(values).sum() == pytest.approx(float(energies[2]), rel=1e-5)


def test_heat_flow(call, run, image_folder, tmp_path):
    call('heat_flow', *run, image_folder, '--out', tmp_path, '--scale',
         'half', '--start', 1, 2)
    numbers = report_of(tmp_path, 'heat_flow')['numbers']
    assert numbers['scale'] == 'half'
    assert numbers['positions_per_step'] == [4, 4]
    assert len(numbers['errors']['exact']['right']['flow']) == 8
    arrays = np.load(tmp_path / 'heat_flow.npz')
    # The flow starts at the real feature.
    assert np.allclose(arrays['flow_exact_0'][2, 1],
                       arrays['features_0'][2, 1], atol=1e-5)
    for wrong in (['--start', 8, 0], ['--size', 0]):
        with pytest.raises(UserError, match=wrong[0]):
            call('heat_flow', *run, image_folder, '--out', tmp_path, *wrong)


def test_heat_flow_of_one_reading_and_an_oblong_image(call, run, image_folder,
                                                      tmp_path):
    call('heat_flow', *run, image_folder / 'a_rgb.png', '--out', tmp_path,
         '--size', 32, 64, '--readings', 'euler', '--by-quarter')
    report = report_of(tmp_path, 'heat_flow')
    assert report['numbers']['positions_per_step'] == [4, 2]
    assert list(report['numbers']['errors']) == ['euler']
    # The trained step is 4 positions to the right and 2 downwards.
    assert [row[:2] for row in report['tables'][0]['rows']] == [
        ['right', 1], ['right', 4], ['down', 1], ['down', 2],
        ['right down', 1]]
    # The network sees colors and values as in training.
    model = MODELS.build(MODEL).eval()
    model.load_state_dict(torch.load(run[1])['state_dict'])
    _, (image, ) = load_images([str(image_folder / 'a_rgb.png')], (32, 64))
    inputs = model.data_preprocessor(dict(
        inputs=torch.from_numpy(image).permute(2, 0, 1)[None],
        data_samples=None))['inputs']
    np.testing.assert_allclose(
        np.load(tmp_path / 'heat_flow.npz')['features_0'],
        projected_features(model, inputs, by_quarter=True)[0], atol=1e-4)


def test_correlation_of_two_encoders(call, run, run_folder, image_folder,
                                     tmp_path):
    call('correlation', *run, image_folder, '--out', tmp_path, '--also',
         run[0], run_folder / 'epoch_1.pth', '--names', 'second', 'first')
    models = report_of(tmp_path, 'correlation')['numbers']['models']
    assert list(models) == ['second', 'first']
    assert models['first']['mean'] != models['second']['mean']
    assert np.load(tmp_path / 'correlation.npz')['first'].shape == (5, )
    with pytest.raises(UserError, match='--names'):
        call('correlation', *run, image_folder, '--out', tmp_path, '--also',
             *run)


def test_encoders_of_mmpretrain(call, image_folder, tmp_path):
    backbone = dict(type='ResNet', depth=18, base_channels=4, stem_channels=4)
    model = dict(type='ImageClassifier', backbone=backbone)
    preprocessor = dict(mean=[123., 116., 103.], std=[58., 57., 57.])
    Config(dict(default_scope='mmpretrain', model=model,
                data_preprocessor=preprocessor)).dump(tmp_path / 'a.py')
    torch.save(MODELS.build(backbone).state_dict(), tmp_path / 'a.pth')
    common = (tmp_path / 'a.py', tmp_path / 'a.pth', image_folder, '--out',
              tmp_path, '--size', 96)
    call('correlation', *common)
    assert report_of(tmp_path, 'correlation')['numbers']['models']['a'][
        'mean'] > 0
    with pytest.raises(UserError, match='ResNet'):
        call('attention', *common)


def test_attention_of_chosen_blocks_heads_and_tokens(call, run, image_folder,
                                                     tmp_path):
    image = image_folder / 'inside'
    call('attention', *run, image, '--out', tmp_path, '--blocks', 3,
         '--heads', 2, '--tokens', 1, 3)
    assert report_of(tmp_path, 'attention')['pictures'] == [
        'attention_mobile_to_former_01.png',
        'attention_former_to_mobile_01.png']
    maps = np.load(tmp_path / 'attention.npz')
    assert set(maps) == {'mobile_to_former_1_config_block3',
                         'former_to_mobile_1_config_block3'}
    assert np.allclose(maps['mobile_to_former_1_config_block3'].sum((2, 3)),
                       1, atol=1e-5)


def test_run_all_ends_in_one_page_without_other_files(
        call, run_folder, image_folder, tmp_path):
    call('run_all', run_folder / 'config.py', run_folder / 'epoch_1.pth',
         run_folder / 'epoch_2.pth', '--images', image_folder, '--out',
         tmp_path, '--num-pictures', 1, '--cfg-options',
         'train_dataloader.dataset.pipeline.0.scale=[32,48]')
    page = (tmp_path / 'index.html').read_text()
    for name in ('reconstruction', 'heat_flow', 'spectrum', 'correlation',
                 'attention'):
        report = report_of(tmp_path, name)
        assert 'run_all.py ' in report['source']['command']
        assert page.count(report['title']) >= 2
    assert page.count('src="data:image/png;base64,') == len(
        list(tmp_path.glob('*.png'))) == 8
    assert 'http' not in page
    # The options reach each tool.
    arrays = np.load(tmp_path / 'reconstruction.npz')
    assert arrays['pred_1_center'].shape == (3, 32, 48)


RESNET = dict(
    MODEL, backbone=dict(type='ResNet', depth=18, base_channels=4,
                         stem_channels=4, strides=(1, 2, 2, 1)),
    predictor=dict(MODEL['predictor'], in_channels=32),
    neck=dict(MODEL['neck'], patch_size=16),
    head=dict(MODEL['head'], patch_size=16))
COPY = dict(MODEL, predictor=dict(MODEL['predictor'], prediction='copy'))


@pytest.mark.parametrize('model, analyses', [
    (RESNET, {'reconstruction', 'heat_flow', 'spectrum', 'correlation'}),
    (COPY, {'reconstruction', 'correlation', 'attention'})])
def test_run_all_leaves_out_what_a_model_lacks(
        call, image_folder, tmp_path, model, analyses):
    Config(dict(
        default_scope='mmpretrain', model=model,
        train_dataloader=dict(dataset=dict(pipeline=[
            dict(type='RandomResizedCrop', scale=64)])))).dump(
        tmp_path / 'a.py')
    torch.save(dict(state_dict=MODELS.build(model).state_dict()),
               tmp_path / 'a.pth')
    call('run_all', tmp_path / 'a.py', tmp_path / 'a.pth', '--images',
         image_folder, '--num-pictures', 1, '--out', tmp_path / 'out')
    assert {path.stem for path in (tmp_path / 'out').glob('*.json')} == (
        analyses)
    assert (tmp_path / 'out/index.html').exists()
    with pytest.raises(UserError, match='a.py'):
        call('spectrum', tmp_path / 'a.py', tmp_path / 'a.pth', '--out',
             tmp_path, '--cfg-options', 'model.predictor.prediction=copy')


def test_an_encoder_alone_is_refused(call, run, tmp_path):
    with pytest.raises(UserError, match=r'encoder alone.* epoch_N\.pth'):
        call('spectrum', run[0], tmp_path / 'encoder.safetensors', '--out',
             tmp_path)


def test_story_takes_reports_of_others_and_no_other_file(call, tmp_path):
    (tmp_path / 'inside').mkdir()
    (tmp_path / 'scalars.json').write_text('{"a": 1}\n{"a": 2}\n')
    (tmp_path / 'results.json').write_text('{"accuracy": 1}')
    (tmp_path / 'link.json').symlink_to('nowhere.json')
    with pytest.raises(UserError, match=str(tmp_path)):
        call('story', tmp_path)
    (tmp_path / 'inside' / 'probe.json').write_text(json.dumps(dict(
        analysis='probe', title='Probing <accuracies>', caption='top-1, %',
        pictures=[], source={}, tables=[dict(
            title='Accuracy', columns=['encoder', 'top-1'],
            rows=[['random', 40.0], ['QB-Heat', 51.25]])])))
    call('story', tmp_path)
    page = (tmp_path / 'index.html').read_text()
    assert 'Probing &lt;accuracies&gt;' in page and '51.25' in page


@pytest.mark.parametrize('change, named', [
    (dict(title=1), 'report.json.*title'),
    (dict(tables=[dict(title='a', columns='b')]), 'report.json.*columns'),
    (dict(pictures=['report.json']), 'report.json'),
    (dict(pictures=['gone.png']), 'gone.png')])
def test_malformed_reports_are_named(call, tmp_path, change, named):
    sound = dict(analysis='a', title='b', caption='c')
    (tmp_path / 'report.json').write_text(json.dumps(sound | change))
    with pytest.raises((UserError, OSError), match=named):
        call('story', tmp_path)


@pytest.mark.parametrize('size,shape', [
    ([], (32, 32)), (['--size', 48], (48, 48)),
    (['--size', 32, 64], (32, 64)), (['--size', 0], (48, 64)),
    # Rounded to what the model accepts.
    (['--cfg-options', 'train_dataloader.dataset.pipeline.0.scale=[44,70]'],
     (48, 64))])
def test_sizes(call, run, image_folder, tmp_path, size, shape):
    image = tmp_path / 'image.png'
    Image.open(image_folder / 'a_rgb.png').resize((60, 44)).save(image)
    call('reconstruct', *run, image, '--out', tmp_path, '--positions',
         'center', *size)
    arrays = np.load(tmp_path / 'reconstruction.npz')
    assert arrays['pred_1_center'].shape == (3, *shape)


def test_file_names_may_be_no_text(call, run, image_folder, tmp_path):
    file = tmp_path / os.fsdecode(b'$\xff.png')
    shutil.copy(image_folder / 'a_rgb.png', file)
    call('reconstruct', *run, file, '--out', tmp_path, '--positions', 'center')
    errors = report_of(tmp_path, 'reconstruction')['numbers']['errors']
    assert list(errors) == [r'$\udcff.png']


def test_fewer_images_are_spread_over_all(call, run, image_folder, tmp_path):
    call('reconstruct', *run, image_folder, '--out', tmp_path, '--positions',
         'center', '--max-images', 2)
    errors = report_of(tmp_path, 'reconstruction')['numbers']['errors']
    assert list(errors) == ['a_rgb.png', 'd_cmyk.JPG']


@pytest.mark.parametrize('name', ['correlation', 'reconstruct'])
@pytest.mark.parametrize('wrong, named', [
    (dict(checkpoint='nowhere.pth'), 'nowhere.pth'),
    (dict(images='nowhere.png'), 'nowhere.png'),
    (dict(config='nowhere.py'), 'nowhere.py')])
def test_missing_files_are_named(call, run, image_folder, tmp_path, name,
                                 wrong, named):
    given = dict(config=run[0], checkpoint=run[1], images=image_folder)
    with pytest.raises((UserError, FileNotFoundError), match=named):
        call(name, *(given | wrong).values(), '--out', tmp_path)
