# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Checkpoints and configurations that a tool of analysis cannot show."""
import mmengine
import pytest
import torch

from qbheat_mm.errors import UserError


def strip(run_folder, tmp_path, keep):
    state = torch.load(run_folder / 'epoch_2.pth')['state_dict']
    file = tmp_path / 'stripped.pth'
    torch.save(dict(state_dict={
        key: value for key, value in state.items() if key.startswith(keep)
    }), file)
    return file


@pytest.mark.parametrize('keep,words', [
    (('backbone.', ), r'no predictor \(predictor\.\*\) and no decoder'),
    (('backbone.', 'predictor.'), r'no decoder \(neck\.\*\)'),
    (('backbone.', 'neck.'), r'no predictor \(predictor\.\*\)')])
def test_a_checkpoint_of_the_encoder_alone_is_refused(
        call, run_folder, image_folder, tmp_path, keep, words):
    file = strip(run_folder, tmp_path, keep)
    with pytest.raises(UserError, match=f'{words}.*pre-training run itself'):
        call('reconstruct', run_folder / 'config.py', file, image_folder,
             '--out', tmp_path)
    assert not list(tmp_path.glob('*.png'))


def test_a_checkpoint_of_another_model_is_refused(call, run, image_folder,
                                                  tmp_path):
    with pytest.raises(UserError, match='does not fit the configuration.*'
                                        'of another shape'):
        call('reconstruct', *run, image_folder, '--out', tmp_path,
             '--cfg-options', 'model.predictor.embed_dims=16',
             'model.neck.embed_dims=16')


def test_a_diverged_checkpoint_is_refused(call, run_folder, image_folder,
                                          tmp_path):
    state = torch.load(run_folder / 'epoch_2.pth')['state_dict']
    state['neck.norm.bias'][0] = float('nan')
    torch.save(dict(state_dict=state), tmp_path / 'nan.pth')
    with pytest.raises(UserError, match='NaN.*neck.norm.bias.*diverged'):
        call('spectrum', run_folder / 'config.py', tmp_path / 'nan.pth',
             '--out', tmp_path)


def test_a_checkpoint_of_other_pixels_is_refused(call, run_folder,
                                                 image_folder, tmp_path):
    content = torch.load(run_folder / 'epoch_2.pth')
    content['meta']['cfg'] = 'data_preprocessor = dict(mean=[1.], std=[2.])'
    file = tmp_path / 'other.pth'
    torch.save(content, file)
    for arguments in (('spectrum', run_folder / 'config.py', file),
                      ('attention', run_folder / 'config.py', file,
                       image_folder)):
        with pytest.raises(UserError, match='other pixels.*mean 1, std 2'):
            call(*arguments, '--out', tmp_path)


def test_a_configuration_of_another_kind_is_refused(call, run, image_folder,
                                                    tmp_path):
    cfg = mmengine.Config.fromfile(run[0])
    cfg.model = dict(type='ImageClassifier', backbone=cfg.model.backbone)
    cfg.dump(tmp_path / 'classifier.py')
    with pytest.raises(UserError, match="model.type='ImageClassifier'"):
        call('reconstruct', tmp_path / 'classifier.py', run[1], image_folder,
             '--out', tmp_path)
    # The encoder of any configuration will do for the correlation.
    call('correlation', tmp_path / 'classifier.py', run[1], image_folder,
         '--out', tmp_path)
