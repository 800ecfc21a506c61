"""The shipped configs build and say what the paper says."""
import pytest
import torch
from mmdet.registry import MODELS
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS as ROOT_MODELS
from mmengine.registry import DefaultScope
from mmengine.runner import Runner

from qbheat_mm.errors import UserError

from .conftest import CONFIGS

COCO = CONFIGS / 'qbheat/coco'
NAMES = sorted(path.stem for path in COCO.glob('*.py'))


def load(name):
    return Config.fromfile(COCO / f'{name}.py')


@pytest.mark.parametrize('name', NAMES)
def test_config_builds(name):
    cfg = load(name)
    model = MODELS.build(cfg.model)
    trained = any(p.requires_grad for p in model.backbone.parameters())
    assert trained == ('_ft_' in name or '_e2e_' in name)
    gpus = 1 if '_1xb16-' in name or 'own-data' in name else 8
    assert cfg.auto_scale_lr.base_batch_size == 16
    assert cfg.train_dataloader.batch_size == 16 // gpus
    for loader in ('train', 'val', 'test'):
        dataset = cfg[f'{loader}_dataloader'].dataset
        assert dataset.type == ('CocoPanopticDataset' if 'panoptic' in name
                                else 'MatchedCocoDataset')
    if '_ft_' not in name:
        with pytest.raises(UserError, match='init_cfg.checkpoint=FILE'):
            model.init_weights()


@pytest.mark.parametrize('arch', ['mf-294m', 'mf-508m'])
def test_v1_encoders_train_at_a_tenth_or_not_at_all(arch):
    """Also: what MF-Dec does not read is neither run nor trained."""
    frozen, whole = (load(f'mf-dec-211_{arch}_{kind}_8xb2-50e_coco')
                     for kind in ('frozen', 'e2e'))
    assert frozen.model.in_channels == whole.model.in_channels
    model = MODELS.build(whole.model)
    wrapper = build_optim_wrapper(model, whole.optim_wrapper)
    rates = {id(p): group['lr'] for group in wrapper.param_groups
             for p in group['params']}
    for name, param in model.named_parameters():
        last = name.startswith(('backbone.stages.4', 'backbone.conv',
                                'backbone.final_bridge'))
        assert param.requires_grad != last, name
        assert last or rates[id(param)] == pytest.approx(
            1e-5 if name.startswith('backbone.') else 1e-4), name


def test_v1_classifiers_fill_the_encoder(tmp_path):
    """With all that the converter writes, the head and 1/32 included."""
    classifier = Config.fromfile(
        CONFIGS / 'mobile_former/mf-294m_8xb128-coslr-450e_in1k.py').model
    classifier.pop('train_cfg')
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        state = ROOT_MODELS.build(classifier).state_dict()
    torch.save(dict(state_dict=state), tmp_path / 'v1.pth')
    model = load('mf-dec-211_mf-294m_frozen_8xb2-50e_coco').model
    model.backbone.init_cfg.checkpoint = str(tmp_path / 'v1.pth')
    detector = MODELS.build(model)
    detector.init_weights()
    for name, tensor in detector.backbone.state_dict().items():
        assert torch.equal(tensor, state[f'backbone.{name}']), name


def test_fine_tuning_needs_the_frozen_run(tiny_config):
    ft = load('mf-dec-211_mf-285m_ft_8xb2-200e_coco')
    tiny_config.custom_hooks = ft.custom_hooks
    with pytest.raises(UserError, match='load_from=FILE'):
        Runner.from_cfg(tiny_config).train()
