# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a user gets wrong ends in one line with the way out."""
import runpy
import sys

import pytest
import torch

from qbheat_mm.compat import load_checkpoint

from .conftest import ROOT


@pytest.fixture
def error_of(monkeypatch, tmp_path):
    """Run a tool in this process; return the line it ends with."""

    def call(name, *args):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, 'argv', [name, *(str(a) for a in args)])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(ROOT / 'tools' / name), run_name='__main__')
        line = str(end.value)
        assert line.startswith('error: ') and '\n' not in line
        return line

    return call


def test_a_tool_prints_the_line_and_no_traceback(tool, classifier_config):
    output = tool('train.py', classifier_config, '--cfg-options',
                  'train_dataloader.dataset.data_root=nowhere', ok=False)
    assert 'Traceback' not in output
    assert output.strip().split('\n')[-1].startswith('error: ')


def test_missing_configuration(error_of):
    assert "'nowhere.py' does not exist" in error_of('train.py', 'nowhere.py')


@pytest.mark.parametrize('name', ['train.py', 'test.py'])
def test_missing_data_root(error_of, tmp_path, classifier_config, name):
    checkpoint = [tmp_path / 'a.pth'] if name == 'test.py' else []
    for file in checkpoint:
        torch.save({}, file)
    part = 'test' if checkpoint else 'train'
    setting = f'{part}_dataloader.dataset.data_root'
    line = error_of(name, classifier_config, *checkpoint, '--cfg-options',
                    f'{setting}=data/nowhere/')
    assert "'data/nowhere/' does not exist" in line
    assert f'{setting}=PATH' in line


def test_missing_annotation_file(error_of, detector_config):
    line = error_of('train.py', detector_config, '--cfg-options',
                    'train_dataloader.dataset.ann_file=none.json')
    assert 'none.json' in line
    assert 'train_dataloader.dataset.ann_file=PATH' in line


def test_misspelt_setting(error_of, classifier_config):
    line = error_of('train.py', classifier_config, '--cfg-options',
                    'modle.head.num_classes=3')
    assert "no setting 'modle'; did you mean 'model'?" in line


def test_option_that_does_not_fit(error_of, classifier_config):
    line = error_of('train.py', classifier_config, '--cfg-options',
                    'train_dataloader.batch_size.x=3')
    assert 'train_dataloader.batch_size.x=3 does not fit' in line


def test_option_without_a_value(monkeypatch, capsys, classifier_config):
    monkeypatch.setattr(sys, 'argv', ['train.py', str(classifier_config),
                                      '--cfg-options', 'resume'])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(ROOT / 'tools/train.py'), run_name='__main__')
    assert end.value.code == 2
    assert "'resume' is not KEY=VALUE" in capsys.readouterr().err


def test_misspelt_type(error_of, classifier_config):
    line = error_of('train.py', classifier_config, '--cfg-options',
                    'model.backbone.type=RestNet')
    assert 'RestNet is not in the' in line


@pytest.mark.skipif(torch.cuda.is_available(), reason='needs no GPU')
def test_mixed_precision_without_a_gpu(error_of, classifier_config):
    assert '--no-amp' in error_of('train.py', classifier_config, '--amp')


def test_unknown_batch_size_of_the_recipe(error_of, classifier_config):
    line = error_of('train.py', classifier_config, '--auto-scale-lr')
    assert 'auto_scale_lr.base_batch_size=N' in line


def test_a_configuration_for_something_else(error_of, tmp_path,
                                            classifier_config,
                                            pretraining_config):
    file = tmp_path / 'a.pth'
    torch.save({}, file)
    line = error_of('test.py', pretraining_config, file)
    assert str(pretraining_config) in line and 'no test_dataloader, no' in line
    line = error_of('train.py', classifier_config, '--cfg-options',
                    'train_dataloader=None')
    assert 'sets no train_dataloader' in line
    (tmp_path / 'a.py').write_text("model = dict(type='QBHeat')")
    assert 'names no data set' in error_of('check_data.py', 'a.py')


def test_what_is_used_while_a_file_is_read_is_no_option(error_of,
                                                        classifier_config):
    line = error_of('train.py', classifier_config, '--cfg-options',
                    'custom_imports.imports=nowhere')
    assert 'custom_imports is used while' in line


@pytest.mark.parametrize('content', [None, '', '{"a":', '[]', '{"rows": []}'])
def test_results_of_something_else(error_of, tmp_path, content):
    if content is not None:
        (tmp_path / 'results.json').write_text(content)
    assert 'results.json' in error_of('demo/compare_seeds.py', tmp_path)


def test_augmenting_no_pipeline(error_of, classifier_config,
                                trained_classifier):
    line = error_of('test.py', classifier_config,
                    trained_classifier / 'epoch_4.pth', '--tta',
                    '--cfg-options', 'test_dataloader.dataset.pipeline=[]')
    assert 'test_dataloader.dataset.pipeline is empty' in line


def test_missing_checkpoint(error_of, classifier_config):
    for args in (['train.py', classifier_config, '--resume', 'none.pth'],
                 ['test.py', classifier_config, 'none.pth']):
        assert "checkpoint 'none.pth'" in error_of(*args)


@pytest.mark.parametrize('absent,words', [
    ('optimizer', 'lacks the state of the optimizer'),
    ('param_schedulers', 'holds 0 schedules'), ('meta', 'how far training')])
def test_resuming_from_a_part_of_a_checkpoint(error_of, tmp_path, absent,
                                              words, classifier_config,
                                              trained_classifier):
    content = load_checkpoint(str(trained_classifier / 'epoch_3.pth'))
    del content[absent]
    torch.save(content, tmp_path / 'part.pth')
    line = error_of('train.py', classifier_config, '--resume', 'part.pth')
    assert "checkpoint 'part.pth'" in line and words in line
    assert 'load_from=FILE' in line


@pytest.mark.parametrize('change,words', [
    (lambda w: w.numpy(), 'numpy.ndarray'), (lambda w: w.bool(), 'bool in'),
    (lambda w: w / 0, 'NaN or infinite')])
def test_testing_what_are_no_weights(error_of, tmp_path, change, words,
                                     classifier_config, trained_classifier):
    content = load_checkpoint(str(trained_classifier / 'epoch_3.pth'))
    name = 'backbone.bn1.running_var'
    content['state_dict'][name] = change(content['state_dict'][name])
    torch.save(content, tmp_path / 'a.pth')
    line = error_of('test.py', classifier_config, 'a.pth')
    assert "checkpoint 'a.pth'" in line and words in line and name in line


def test_predictions_need_a_pickle_file(error_of, tmp_path,
                                        classifier_config):
    file = tmp_path / 'a.pth'
    torch.save({}, file)
    line = error_of('test.py', classifier_config, file, '--out', 'a.txt')
    assert "--out 'a.txt'" in line and '.pkl' in line


def test_encoder_without_a_checkpoint(error_of, classifier_config):
    line = error_of('train.py', classifier_config, '--cfg-options',
                    'model.backbone.init_cfg.type=PretrainedEncoder')
    assert 'model.backbone.init_cfg.checkpoint=FILE' in line


@pytest.mark.parametrize('num_workers', [0, 1])
def test_corrupt_image(error_of, tmp_path, data, classifier_config,
                       num_workers):
    bad = tmp_path / 'data/a/bad.jpg'
    bad.parent.mkdir(parents=True)
    whole = (data / 'images/a/0.jpg').read_bytes()
    bad.write_bytes(whole[:300])
    (bad.parent / 'good.jpg').write_bytes(whole)
    line = error_of('train.py', classifier_config, '--cfg-options',
                    f'train_dataloader.dataset.data_root={tmp_path}',
                    'train_dataloader.dataset.data_prefix=data',
                    f'train_dataloader.num_workers={num_workers}')
    assert str(bad) in line and 'ignore_empty' in line


@pytest.mark.parametrize('num_workers', [0, 1])
def test_an_image_that_is_ignored_in_a_test(error_of, tmp_path, data,
                                            classifier_config, num_workers,
                                            trained_classifier, monkeypatch):
    whole = (data / 'images/a/0.jpg').read_bytes()
    for name, content in (('a/bad', whole[:300]), ('a/0', whole),
                          ('b/0', whole)):
        path = tmp_path / f'data/{name}.jpg'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    arguments = (
        'test.py', classifier_config, trained_classifier / 'epoch_4.pth',
        '--cfg-options', f'test_dataloader.dataset.data_root={tmp_path}',
        'test_dataloader.dataset.data_prefix=data',
        'test_dataloader.dataset.test_mode=True',
        f'test_dataloader.num_workers={num_workers}',
        'test_dataloader.dataset.pipeline.0.ignore_empty=True')
    assert 'test need every image' in error_of(*arguments)
    monkeypatch.setenv('QBHEAT_UNCHECKED_SETTINGS', '1')
    line = error_of(*arguments)
    assert 'take ignore_empty out of that pipeline' in line


def test_checkpoint_of_another_architecture(error_of, tmp_path,
                                            classifier_config):
    file = tmp_path / 'a.pth'
    torch.save(dict(state_dict={'backbone.conv1.weight': torch.rand(1)}), file)
    line = error_of('test.py', classifier_config, file)
    assert f"checkpoint '{file}'" in line and 'does not fit' in line


def test_an_unexpected_error_keeps_its_traceback(monkeypatch):
    from qbheat_mm.cli import report_user_errors

    def defect():
        raise KeyError('a defect')

    with pytest.raises(KeyError, match='a defect'):
        report_user_errors(defect)


def test_the_traceback_of_a_user_error_can_be_had(monkeypatch):
    from qbheat_mm.cli import report_user_errors
    from qbheat_mm.errors import UserError

    def wrong():
        raise UserError('a wrong setting')

    monkeypatch.setenv('QBHEAT_TRACEBACK', '1')
    with pytest.raises(UserError):
        report_user_errors(wrong)
