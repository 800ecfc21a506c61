# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The tools of tools/analysis, on a tiny run and images of all kinds."""
import json
import runpy
import sys
from io import BytesIO

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from mmengine.config import Config
from mmengine.registry import MODELS
from PIL import Image

from qbheat_mm.analysis.attention import default_blocks
from qbheat_mm.analysis.story import tell
from qbheat_mm.errors import UserError
from qbheat_mm.models.backbones import MobileFormer

from .conftest import ARCH, MODEL, TOOLS


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
    assert report['source']['epoch'] == 2
    # A transparent file without transparency is the same image.
    assert errors['a_rgb.png'] == errors['c_rgba.png']
    for name in report['pictures']:
        # Three columns and five rows of pictures.
        width, height = Image.open(tmp_path / name).size
        assert 1 < height / width < 2
    arrays = np.load(tmp_path / 'reconstruction.npz')
    assert arrays['pred_1_center'].shape == (3, 32, 32)
    assert arrays['mask_1_center'].mean() == 0.75


def test_images_of_one_name_have_a_row_each(call, run, image_folder, tmp_path):
    files = [tmp_path / split / 'cat/1.png' for split in ('train', 'val')]
    for file, name in zip(files, ('a_rgb.png', 'b_grey.png')):
        file.parent.mkdir(parents=True)
        file.symlink_to(image_folder / name)
    call('reconstruct', *run, *files, files[0], '--positions', 'center', '--out',
         tmp_path)
    report = report_of(tmp_path, 'reconstruction')
    names = ['train/cat/1.png', 'val/cat/1.png']
    assert list(report['numbers']['errors']) == names
    assert [row[0] for row in report['tables'][0]['rows']] == [
        *names, names[0]]


def test_true_statistics_must_be_asked_for_and_are_labelled(
        call, run, image_folder, tmp_path):
    image = image_folder / 'a_rgb.png'
    call('reconstruct', *run, image, '--positions', 'center', '--out',
         tmp_path / 'a')
    assert 'FROM THE MASKED' not in report_of(tmp_path / 'a',
                                              'reconstruction')['caption']
    call('reconstruct', *run, image, '--positions', 'center', '--out',
         tmp_path / 'b', '--use-true-patch-statistics',
         '--use-visible-patch-statistics')
    report = report_of(tmp_path / 'b', 'reconstruction')
    assert report['numbers']['statistics'] == ['contrast', 'visible', 'true']
    assert 'FROM THE MASKED PIXELS' in report['caption']


def test_labels_of_statistics_are_in_the_picture():
    from qbheat_mm.analysis.figures.reconstruction import (
        Row,
        draw_reconstructions,
    )
    black = np.zeros((4, 4, 3), np.uint8)
    row = Row('a', 0.5, dict(original=black, given=black, contrast=black,
                             true=black))
    axes = draw_reconstructions([row]).axes
    titles = [axis.get_title() for axis in axes]
    assert titles[:2] == ['original', 'visible quarter']
    assert 'mid-grey' in titles[2] and 'TRUE PATCH STATISTICS' in titles[3]


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
    told = [line.split() for line in capsys.readouterr().out.splitlines()]
    for row in table['rows']:  # to the eye as to the file
        assert [f'{cell:.4g}' if isinstance(cell, float) else str(cell)
                for cell in row] in told
    values = np.load(tmp_path / 'spectrum.npz')['eigenvalues_B_half']
    assert np.abs(values).sum() == pytest.approx(float(energies[2]), rel=1e-5)


def write_as(run_folder, folder, **times):
    """Checkpoints of other names and times: name=(weights, epoch, iter)."""
    for name, (weights, epoch, iteration) in times.items():
        content = torch.load(run_folder / f'epoch_{weights}.pth')
        content['meta'].update(epoch=epoch, iter=iteration)
        torch.save(content, folder / f'{name}.pth')
    return [folder / f'{name}.pth' for name in times]


@pytest.mark.parametrize('times, unit, points', [
    (dict(b=(2, 0, 200), a=(1, 0, 100)), 'iteration', [100, 200]),
    (dict(epoch_1=(1, 1, 10), epoch_2=(2, 2, 20), best=(2, 2, 20)), 'epoch',
     [1, 2]),
    (dict(one=(1, 2, 20), other=(2, 2, 20)), None, [])])
def test_spectrum_of_checkpoints_of_one_epoch(
        call, run_folder, tmp_path, monkeypatch, times, unit, points):
    drawn = []
    monkeypatch.setattr(
        'qbheat_mm.analysis.figures.spectrum.draw_energy_ratios',
        lambda *args: drawn.append(args) or Figure())
    files = write_as(run_folder, tmp_path, **times)
    call('spectrum', run_folder / 'config.py', *files, '--out', tmp_path)
    rows = report_of(tmp_path, 'spectrum')['tables'][0]['rows']
    assert [row[0] for row in rows] == [file.name for file in files]
    assert [(list(x), name) for x, _, name in drawn] == (
        [(points, unit)] if unit else [])


def test_spectrum_of_checkpoints_of_one_name(call, run_folder, tmp_path):
    files = []
    for run in ('first', 'second'):
        (tmp_path / run).mkdir()
        files += write_as(run_folder, tmp_path / run, epoch_1=(1, 1, 10))
    call('spectrum', run_folder / 'config.py', *files, '--out', tmp_path)
    rows = report_of(tmp_path, 'spectrum')['tables'][0]['rows']
    assert [row[0] for row in rows] == ['first/epoch_1.pth',
                                        'second/epoch_1.pth']


def test_heat_flow(call, run, image_folder, tmp_path):
    call('heat_flow', *run, image_folder, '--out', tmp_path, '--scale',
         'half', '--start', 1, 2)
    numbers = report_of(tmp_path, 'heat_flow')['numbers']
    assert numbers['scale'] == 'half' and numbers['start'] == [1, 2]
    assert numbers['positions_per_step'] == [4, 4]
    assert len(numbers['errors']['exact']['right']['flow']) == 8
    arrays = np.load(tmp_path / 'heat_flow.npz')
    # The flow starts at the real feature.
    assert np.allclose(arrays['flow_exact_0'][2, 1],
                       arrays['features_0'][2, 1], atol=1e-5)
    with pytest.raises(UserError, match='--start 8 0.*8 columns and 8 rows'):
        call('heat_flow', *run, image_folder, '--out', tmp_path, '--start', 8,
             0)


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


def test_correlation_of_two_encoders(call, run, run_folder, image_folder,
                                     tmp_path):
    call('correlation', *run, image_folder, '--out', tmp_path, '--also',
         run[0], run_folder / 'epoch_1.pth', '--names', 'second', 'first')
    models = report_of(tmp_path, 'correlation')['numbers']['models']
    assert list(models) == ['second', 'first']
    assert models['first']['mean'] != models['second']['mean']
    assert len(models['first']['images']) == 5
    with pytest.raises(UserError, match='2 encoders need 2 different names'):
        call('correlation', *run, image_folder, '--out', tmp_path, '--also',
             *run)


def test_an_encoder_of_the_toolboxes(call, image_folder, tmp_path):
    backbone = dict(type='ResNet', depth=18, base_channels=4, stem_channels=4)
    model = dict(type='ImageClassifier', backbone=backbone,
                 data_preprocessor=dict(mean=[0.] * 3, std=[1.] * 3,
                                        to_rgb=True))
    Config(dict(default_scope='mmpretrain', model=model)).dump(
        tmp_path / 'a.py')
    encoder = MODELS.build(backbone)
    torch.save(encoder.state_dict(), tmp_path / 'a.pth')
    common = (tmp_path / 'a.py', tmp_path / 'a.pth', image_folder, '--out',
              tmp_path, '--size', 96)
    call('correlation', *common)
    assert report_of(tmp_path, 'correlation')['numbers']['models']['a'][
        'mean'] > 0
    with pytest.raises(UserError, match='ResNet has no bridge'):
        call('attention', *common)


def test_attention_of_chosen_blocks_heads_and_tokens(call, run, image_folder,
                                                     tmp_path):
    image = image_folder / 'inside'
    call('attention', *run, image, '--out', tmp_path, '--blocks', 3,
         '--heads', 2, '--tokens', 1, 3)
    report = report_of(tmp_path, 'attention')
    assert report['pictures'] == ['attention_mobile_to_former_01.png',
                                  'attention_former_to_mobile_01.png']
    maps = np.load(tmp_path / 'attention.npz')
    assert list(maps) == ['mobile_to_former_1_config_block3',
                          'former_to_mobile_1_config_block3']
    assert np.allclose(maps['mobile_to_former_1_config_block3'].sum((2, 3)),
                       1, atol=1e-5)
    with pytest.raises(UserError, match='--blocks 1: there are 2, 3'):
        call('attention', *run, image, '--out', tmp_path, '--blocks', 1)


def test_run_all_ends_in_one_page_without_other_files(
        call, run_folder, image_folder, tmp_path):
    call('run_all', run_folder / 'config.py', run_folder / 'epoch_1.pth',
         run_folder / 'epoch_2.pth', '--images', image_folder, '--out',
         tmp_path, '--num-pictures', 1)
    page = (tmp_path / 'index.html').read_text()
    for name, tool in (('reconstruction', 'reconstruct'),
                       ('heat_flow', 'heat_flow'), ('spectrum', 'spectrum'),
                       ('correlation', 'correlation'),
                       ('attention', 'attention')):
        report = report_of(tmp_path, name)
        assert f'tools/analysis/{tool}.py' in report['source']['command']
        assert page.count(report['title']) >= 2
    assert page.count('<img ') == len(list(tmp_path.glob('*.png'))) == 8
    assert page.count('src="data:image/png;base64,') == 8
    assert 'http' not in page


def test_all_of_another_backbone_but_attention(call, image_folder, tmp_path,
                                               capsys):
    model = dict(MODEL, backbone=dict(
        type='ResNet', depth=18, base_channels=4, stem_channels=4,
        strides=(1, 2, 2, 1)), predictor=dict(
            MODEL['predictor'], in_channels=32),
        neck=dict(MODEL['neck'], patch_size=16),
        head=dict(MODEL['head'], patch_size=16))
    Config(dict(
        default_scope='mmpretrain', model=model,
        train_dataloader=dict(dataset=dict(pipeline=[
            dict(type='RandomResizedCrop', scale=64)])))).dump(
        tmp_path / 'a.py')
    torch.save(dict(state_dict=MODELS.build(model).state_dict()),
               tmp_path / 'a.pth')
    call('run_all', tmp_path / 'a.py', tmp_path / 'a.pth', '--images',
         image_folder, '--num-pictures', 1, '--out', tmp_path / 'out')
    assert {path.stem for path in (tmp_path / 'out').glob('*.json')} == {
        'reconstruction', 'heat_flow', 'spectrum', 'correlation'}
    assert (tmp_path / 'out/index.html').exists()
    assert 'left out: attention.py, as a ResNet has' in capsys.readouterr().out


def test_patches_all_over_the_image_are_told_apart(call, run, image_folder,
                                                   tmp_path):
    with pytest.raises(UserError, match='RandomMasking'):
        call('reconstruct', *run, image_folder, '--out', tmp_path,
             '--cfg-options', 'model.type=RandomMasking')


@pytest.mark.parametrize('prediction', ['copy', 'mask_token'])
def test_a_control_has_no_matrices_to_look_at(
        call, build, run_folder, image_folder, tmp_path, capsys, prediction):
    config, file = run_folder / 'config.py', tmp_path / 'control.pth'
    model = build(predictor=dict(MODEL['predictor'], prediction=prediction))
    torch.save(dict(state_dict=model.state_dict()), file)
    options = ['--out', tmp_path / 'out', '--cfg-options',
               f'model.predictor.prediction={prediction}']
    for name, arguments in (('heat_flow', [image_folder]), ('spectrum', [])):
        with pytest.raises(UserError, match=str(config)):
            call(name, config, file, *arguments, *options)
    call('run_all', config, file, '--images', image_folder, '--num-pictures',
         1, *options)
    assert {path.stem for path in (tmp_path / 'out').glob('*.json')} == {
        'reconstruction', 'correlation', 'attention'}
    assert 'left out: heat_flow.py and spectrum.py' in capsys.readouterr().out


def test_story_takes_reports_of_others_and_no_other_file(call, tmp_path):
    (tmp_path / 'inside').mkdir()
    (tmp_path / 'scalars.json').write_text('{"a": 1}\n{"a": 2}\n')
    (tmp_path / 'results.json').write_text('{"accuracy": 1}')
    with pytest.raises(UserError, match='holds no report'):
        call('story', tmp_path)
    (tmp_path / 'inside' / 'probe.json').write_text(json.dumps(dict(
        analysis='probe', title='Probing <accuracies>', caption='top-1, %',
        pictures=[], source={}, tables=[dict(
            title='Accuracy', columns=['encoder', 'top-1'],
            rows=[['random', 40.0], ['QB-Heat', 51.25]])])))
    call('story', tmp_path)
    page = (tmp_path / 'index.html').read_text()
    assert 'Probing &lt;accuracies&gt;' in page and '51.25' in page


@pytest.mark.parametrize('change, words', [
    (dict(analysis=['a']), 'analysis='), (dict(title=1), 'title=1 must be'),
    (dict(caption=None), 'caption='), (dict(pictures='ab'), 'pictures='),
    (dict(source=[]), 'source='), (dict(numbers=[1]), 'numbers='),
    (dict(source=dict(command=5)), 'command=5'),
    (dict(tables={}), 'tables='), (dict(tables=[5]), 'tables='),
    (dict(tables=[dict(title='a', columns=['b'])]), 'tables.0.rows='),
    (dict(pictures=['report.json']), "report.json' of a report is no PNG"),
])
def test_story_refuses_malformed_reports(call, tmp_path, change, words):
    sound = dict(analysis='a', title='b', caption='c', tables=[], pictures=[],
                 source={})
    file = tmp_path / 'report.json'
    file.write_text(json.dumps(sound | change))
    with pytest.raises(UserError) as error:
        call('story', tmp_path)
    assert words in str(error.value) and str(file) in str(error.value)


@pytest.mark.parametrize('name', ['file', 'allow_pickle', 'a/b', ' '])
def test_names_under_which_no_array_can_be_kept(call, run, image_folder,
                                                tmp_path, name):
    with pytest.raises(UserError, match='--names'):
        call('correlation', *run, image_folder, '--out', tmp_path, '--names',
             name)


@pytest.mark.parametrize('dpi', [100, 200])
def test_figures_are_as_wide_on_the_page_as_in_print(dpi):
    figure = Figure(figsize=(4, 2))
    content = BytesIO()
    figure.savefig(content, dpi=dpi)
    report = dict(analysis='probe', title='Probe', caption='', tables=[],
                  pictures=['probe.png'], source={})
    page = tell('Story', '', [report], lambda *_: content.getvalue())
    assert '<img width="440" ' in page


@pytest.mark.parametrize('size,shape', [
    ((), (32, 32)), ((48, ), (48, 48)), ((32, 64), (32, 64)),
    ((0, ), (48, 64))])
def test_sizes(call, run, image_folder, tmp_path, size, shape):
    option = ['--size', *size] if size else []
    image = tmp_path / 'image.png'
    Image.open(image_folder / 'a_rgb.png').resize((60, 44)).save(image)
    call('reconstruct', *run, image, '--out', tmp_path, '--positions', 'center',
         *option)
    arrays = np.load(tmp_path / 'reconstruction.npz')
    assert arrays['pred_1_center'].shape == (3, *shape)


def test_a_size_of_training_that_does_not_divide_is_rounded(
        call, run, image_folder, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr('qbheat_mm.cli.analysis_tool.print_log',
                        lambda line, **_: told.append(line))
    config = tmp_path / 'odd.py'
    config.write_text(f"_base_ = {str(run[0])!r}\n"
                      "train_dataloader = dict(dataset=dict(pipeline=[dict("
                      "type='CenterCrop', crop_size=(70, 44))]))\n")
    call('reconstruct', config, run[1], image_folder, '--out', tmp_path,
         '--positions', 'center')
    arrays = np.load(tmp_path / 'reconstruction.npz')
    assert arrays['pred_1_center'].shape == (3, 48, 64)
    assert ('in 48x64, since training has 44x70 and this needs multiples of '
            '16; --size') in told[0]


def test_fewer_images_are_spread_over_all(call, run, image_folder, tmp_path):
    call('reconstruct', *run, image_folder, '--out', tmp_path, '--positions',
         'center', '--max-images', 2)
    errors = report_of(tmp_path, 'reconstruction')['numbers']['errors']
    assert list(errors) == ['a_rgb.png', 'd_cmyk.JPG']
    with pytest.raises(UserError, match='--max-images 0 leaves no image'):
        call('reconstruct', *run, image_folder, '--out', tmp_path,
             '--max-images', 0)


def test_a_size_that_does_not_divide_is_refused(call, run, image_folder,
                                                tmp_path):
    with pytest.raises(UserError, match='--size 30.*multiples of 16'):
        call('reconstruct', *run, image_folder, '--out', tmp_path, '--size',
             30)
    with pytest.raises(UserError, match='2 different sizes.*--size PIXELS'):
        call('heat_flow', *run, image_folder / 'a_rgb.png',
             image_folder / 'inside', '--out', tmp_path, '--size', 0)


def test_pictures_without_matplotlib_name_the_way_out(monkeypatch):
    from qbheat_mm.analysis.figures.style import new_figure
    monkeypatch.setitem(sys.modules, 'matplotlib', None)
    with pytest.raises(UserError, match='pip install matplotlib'):
        new_figure(1, 1)


@pytest.mark.parametrize('name', [
    'attention', 'correlation', 'heat_flow', 'reconstruct', 'spectrum'])
def test_a_missing_checkpoint_is_named(monkeypatch, run, image_folder,
                                       tmp_path, name):
    arguments = [run[0], tmp_path / 'nowhere.pth']
    if name != 'spectrum':
        arguments.append(image_folder)
    monkeypatch.setattr(sys, 'argv', [
        f'{name}.py', *map(str, arguments), '--out', str(tmp_path)])
    with pytest.raises((SystemExit, FileNotFoundError),
                       match='nowhere.pth'):
        runpy.run_path(str(TOOLS / f'{name}.py'), run_name='__main__')


def test_each_encoder_shows_the_blocks_of_its_own(call, run, run_folder,
                                                  image_folder, tmp_path):
    """By default the last of each resolution, which differ."""
    other = MobileFormer(dict(ARCH, stages=[
        [('lite', 8, 8)], [('mf-down', 16, 12), ('mf', 24, 12),
                           ('mf', 24, 12), ('mf', 24, 12)]]))
    cfg = Config.fromfile(run_folder / 'config.py')
    cfg.model.backbone.arch.stages = other.arch['stages']
    cfg.dump(tmp_path / 'other.py')
    torch.save(dict(state_dict={
        f'backbone.{name}': tensor for name, tensor
        in other.state_dict().items()}), tmp_path / 'other.pth')
    call('attention', *run, image_folder / 'inside', '--out', tmp_path,
         '--also', tmp_path / 'other.py', tmp_path / 'other.pth')
    blocks = {name.split('_')[-2]: set() for name
              in np.load(tmp_path / 'attention.npz')}
    for name in np.load(tmp_path / 'attention.npz'):
        blocks[name.split('_')[-2]].add(name.split('_')[-1])
    assert blocks['config'] == {f'block{i}' for i in default_blocks(
        MobileFormer(ARCH))}
    assert blocks['other'] == {f'block{i}' for i in default_blocks(other)}
    assert blocks['config'] != blocks['other']
