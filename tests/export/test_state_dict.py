# Copyright (c) QB-Heat MM authors. All rights reserved.
"""ResNet and ConvNeXt as torchvision and timm know them."""
import importlib.util

import pytest
import torch
import torchvision
from mmengine.registry import MODELS, DefaultScope

from qbheat_mm.errors import UserError
from qbheat_mm.export import export_state_dict
from qbheat_mm.export import state_dict as module
from qbheat_mm.export.library_names import LIBRARIES, rename

from .conftest import MOBILE_FORMER, pretraining, weighted, write_run

SMALL = dict(depths=[1, 1, 2, 1], channels=[8, 16, 24, 32])
CONVNEXT = dict(type='ConvNeXt', arch=SMALL, gap_before_final_norm=False)
V2 = dict(CONVNEXT, use_grn=True, layer_scale_init_value=0.)
RESNET = dict(type='ResNet', depth=18)
needs_timm = pytest.mark.skipif(
    importlib.util.find_spec('timm') is None, reason='timm is not installed')


def build(settings):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        return weighted(MODELS.build(dict(settings)))


@pytest.fixture(scope='module')
def resnet(tmp_path_factory):
    """A pre-training of ResNet-18."""
    return write_run(tmp_path_factory.mktemp('resnet'),
                     pretraining(RESNET, 512, patch=32))


@pytest.fixture(scope='module')
def convnext(tmp_path_factory):
    """A pre-training of a small ConvNeXt."""
    return write_run(tmp_path_factory.mktemp('convnext'),
                     pretraining(CONVNEXT, 32, patch=32))


def features(model, part, image):
    seen = []
    model.get_submodule(part).register_forward_hook(
        lambda module, inputs, output: seen.append(output))
    with torch.no_grad():
        model.eval()(image)
    return seen[0]


def test_torchvision_loads_a_resnet_as_the_docs_say(resnet, tmp_path):
    out = str(tmp_path / 'resnet18.pth')
    written = export_state_dict(resnet[2], out, 'torchvision', resnet[0])
    model = torchvision.models.resnet18()
    model.fc = torch.nn.Identity()
    model.load_state_dict(torch.load(out, weights_only=True), strict=True)
    image = torch.randn(2, 3, 96, 65)
    with torch.no_grad():
        ours, = resnet[3].backbone(image)
        torch.testing.assert_close(model.eval()(image), ours.mean((2, 3)))
    assert written.tensors == len(model.state_dict())
    assert 0 <= written.difference < 1e-5


def test_torchvision_loads_a_convnext_as_the_docs_say(convnext, tmp_path):
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt
    safetensors = pytest.importorskip('safetensors.torch')
    out = str(tmp_path / 'convnext.safetensors')
    export_state_dict(convnext[2], out, 'torchvision')
    model = ConvNeXt([CNBlockConfig(8, 16, 1), CNBlockConfig(16, 24, 1),
                      CNBlockConfig(24, 32, 2), CNBlockConfig(32, None, 1)])
    model.classifier[2] = torch.nn.Identity()
    model.load_state_dict(safetensors.load_file(out), strict=True)
    image = torch.randn(2, 3, 96, 65)
    with torch.no_grad():
        ours, = convnext[3].backbone(image)
        theirs = model.eval().classifier[0](model.features(image))
    torch.testing.assert_close(theirs, ours, rtol=1e-3, atol=1e-4)


@needs_timm
def test_timm_loads_a_resnet_as_the_docs_say(resnet, tmp_path):
    import timm
    out = str(tmp_path / 'resnet18.pth')
    export_state_dict(resnet[2], out, 'timm')
    model = timm.create_model('resnet18', num_classes=0, checkpoint_path=out)
    image = torch.randn(2, 3, 96, 65)
    with torch.no_grad():
        ours, = resnet[3].backbone(image)
        torch.testing.assert_close(model.eval().forward_features(image), ours)


@needs_timm
@pytest.mark.parametrize('settings', [CONVNEXT, V2])
def test_timm_loads_both_versions_of_convnext(settings, tmp_path):
    from timm.models.convnext import ConvNeXt
    encoder = build(settings)
    model = ConvNeXt(
        depths=SMALL['depths'], dims=SMALL['channels'], num_classes=0,
        use_grn='use_grn' in settings,
        ls_init_value=None if 'use_grn' in settings else 1.)
    model.load_state_dict(rename(encoder, 'timm'), strict=True)
    image = torch.randn(2, 3, 96, 64)
    with torch.no_grad():
        ours, = encoder(image)
        theirs = model.head.norm(model.eval().forward_features(image))
    torch.testing.assert_close(theirs, ours, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize('settings', [
    dict(type='ResNet', depth=50), dict(type='ResNeXt', depth=50),
    dict(CONVNEXT, linear_pw_conv=False)])
@pytest.mark.parametrize('library', LIBRARIES)
def test_further_networks_of_both(settings, library):
    compared(build(settings), library)


@needs_timm
@pytest.mark.parametrize('kind', ['ResNetV1c', 'ResNetV1d'])
def test_deep_stems_are_timms_alone(kind):
    encoder = build(dict(type=kind, depth=50))
    compared(encoder, 'timm')
    with pytest.raises(UserError, match='torchvision has no .*deep_stem'):
        rename(encoder, 'torchvision')


def compared(encoder, library):
    from qbheat_mm.export.library_models import compare_with_library
    pytest.importorskip(library)
    state = rename(encoder, library)
    assert compare_with_library(encoder, state, library) < 1e-4
    # A wrong name or weight is seen.
    name = [name for name, tensor in state.items()
            if tensor.ndim == 4 and tensor.shape[-1] > 1][-1]
    with pytest.raises(UserError, match='differ by'):
        compare_with_library(
            encoder, {**state, name: state[name].flip(-1)}, library)


@pytest.mark.parametrize('settings,library,words', [
    (MOBILE_FORMER, 'torchvision', 'torchvision has no MobileFormer'),
    (MOBILE_FORMER, 'timm', '--format safetensors'),
    (dict(RESNET, depth=50, style='caffe'), 'timm', "style='caffe'"),
    (dict(RESNET, base_channels=32, stem_channels=32), 'torchvision',
     'base_channels=32, stem_channels=32'),
    (dict(RESNET, strides=(1, 2, 2, 1)), 'timm', 'strides=(1, 2, 2, 1)'),
    (dict(RESNET, norm_cfg=dict(type='GN', num_groups=2)), 'timm', 'norm'),
    (V2, 'torchvision', 'its second version'),
    (dict(CONVNEXT, stem_patch_size=2), 'timm', 'patches of (2, 2)'),
    (dict(CONVNEXT, out_indices=(0, )), 'timm', 'no norm behind')])
def test_what_a_library_has_not_is_told(settings, library, words):
    encoder = build(settings)
    with pytest.raises(UserError) as error:
        rename(encoder, library)
    assert words in str(error.value) and '\n' not in str(error.value)


def test_another_activation_is_told():
    from qbheat_mm.export.library_models import compare_with_library
    encoder = build(dict(CONVNEXT, act_cfg=dict(type='ReLU')))
    with pytest.raises(UserError, match='act_cfg'):
        compare_with_library(encoder, rename(encoder, 'torchvision'),
                             'torchvision')


def test_without_the_library_nothing_is_compared(convnext, tmp_path,
                                                 monkeypatch):
    def missing(*args):
        raise ImportError

    monkeypatch.setattr(module, 'compare_with_library', missing)
    out = tmp_path / 'a.pth'
    assert export_state_dict(
        convnext[2], str(out), 'timm').difference is None
    assert out.exists()
