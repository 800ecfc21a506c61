# Copyright (c) QB-Heat MM authors. All rights reserved.
"""encoder=FILE of thirteen networks in each kind of config.

Half an hour on two cores, so pytest collects this file only if it is named:

    python -m pytest tests/configs/encoder_matrix.py

Networks that a config refuses are skipped with its reason. Exporting compares
ONNX Runtime with PyTorch.
"""

import pytest
import timm
import torch
from mmengine.registry import DefaultScope
from mmpretrain import get_model
from torch.nn.modules.batchnorm import _BatchNorm

from qbheat_mm.apis import load_encoder, published_encoder
from qbheat_mm.errors import UserError
from qbheat_mm.export import export_encoder, export_network
from qbheat_mm.trained import Normalization
from qbheat_mm.trained.model import TrainedModel

from .steps import QBHEAT, config_of, take_steps, train_on_two_processes

NETWORKS = [
    'timm/convnext_atto', 'timm/edgenext_xx_small', 'timm/efficientnet_lite0',
    'timm/ghostnet_100', 'timm/hgnetv2_b0', 'timm/mobilenetv3_small_050',
    'timm/mobileone_s0', 'timm/regnety_002', 'timm/repvit_m0_9',
    'timm/resnet18', 'mobilenet-v2_8xb32_in1k', 'regnetx-400mf_8xb128_in1k',
    'resnet18_8xb32_in1k']
BENCHMARKS = 'qbheat/benchmarks/mf-285m_'
CLASSIFIERS = [
    f'{BENCHMARKS}1xb256-linear-coslr-90e_own-folders.py',
    f'{BENCHMARKS}1xb256-tran1-coslr-200e_own-folders.py']
DETECTORS = [
    'qbheat/coco/retinanet_mf-285m_own-data.py',
    'qbheat/coco/mask-rcnn_mf-285m_own-data.py',
    'qbheat/coco/faster-rcnn_mf-285m_fpn_frozen_8xb2-1x_coco.py',
    'qbheat/coco/fcos_mf-285m_fpn_frozen_8xb2-1x_coco.py',
    'qbheat/coco/dino_mf-285m_4scale_frozen_8xb2-12e_coco.py',
    'qbheat/coco/mf-dec-211_mf-285m_own-data.py']
TRAINED = [
    QBHEAT, 'mocov2/mocov2_mf-285m_1xb256-coslr-200e_own-images.py',
    f'{BENCHMARKS}1xb256-ft-tran1-coslr-200e_own-folders.py',
    f'{BENCHMARKS}8xb64-ft-tran4-coslr-200e_in1k.py',
    'mobile_former/mf-26m_8xb128-coslr-450e_in1k.py']
CASES = [(name, frozen) for name in CLASSIFIERS + DETECTORS
         for frozen in (False, True)]
CASES += [(name, False) for name in TRAINED]


@pytest.fixture(scope='session')
def file_of(tmp_path_factory):
    """A function that writes the file of a network with random weights."""
    folder, files = tmp_path_factory.mktemp('encoders'), {}

    def write(name):
        if name not in files:
            stem = name.removeprefix('timm/')
            network = (timm.create_model(stem) if name.startswith('timm/')
                       else get_model(name))
            use_statistics_of_noise(network)
            weights = folder / f'{stem}.pth'
            torch.save(network.state_dict(), weights)
            files[name] = export_encoder(
                published_encoder(name, weights),
                folder / f'{stem}.safetensors')
        return files[name]

    return write


def use_statistics_of_noise(network):
    """Or features of random weights grow until a loss is NaN."""
    for module in network.modules():
        if isinstance(module, _BatchNorm):
            module.momentum = None  # the mean over all batches
    network.train()
    with torch.no_grad():
        network(torch.randn(8, 3, 64, 64))


@pytest.mark.parametrize('name, frozen', CASES)
@pytest.mark.parametrize('network', NETWORKS)
def test_one_process(name, frozen, network, file_of, data, tmp_path):
    cfg = config_of(name, frozen, file_of(network), data, tmp_path)
    runner = take_steps(cfg, 2)
    for key, parameter in runner.model.named_parameters():
        state = runner.optim_wrapper.optimizer.state.get(parameter)
        assert bool(state) == parameter.requires_grad, key
    if name in (*CLASSIFIERS, DETECTORS[0]) and not frozen:
        # With those of two steps, float32 differs from float64 by a third.
        use_statistics_of_noise(runner.model.backbone)
        model = TrainedModel(runner.model.eval(), '', (),
                             Normalization.of(runner.model))
        size = (160, 160) if name in DETECTORS else (64, 64)
        with DefaultScope.overwrite_default_scope(cfg.default_scope):
            export_network(model, tmp_path / 'model.onnx', size)


@pytest.mark.parametrize('name, frozen', CASES)
@pytest.mark.parametrize('network', NETWORKS)
def test_two_processes(name, frozen, network, file_of, data, tmp_path):
    cfg = config_of(name, frozen, file_of(network), data, tmp_path)
    train_on_two_processes(cfg, tmp_path)


@pytest.mark.parametrize('network', NETWORKS)
def test_onnx(network, file_of, tmp_path):
    """Images of any size, or else of one."""
    encoder, out = load_encoder(file_of(network)), tmp_path / 'encoder.onnx'
    try:
        export_network(encoder, out)
    except UserError as error:  # ConvNeXt and EdgeNeXt
        assert '--size' in str(error)
        export_network(encoder, out, (64, 96))
