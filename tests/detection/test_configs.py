"""The shipped configs build and say what the paper says."""
import pytest
from mmdet.registry import MODELS
from mmengine.config import Config
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
    assert trained == ('_ft_' in name)
    assert cfg.auto_scale_lr.base_batch_size == 16
    assert cfg.train_dataloader.batch_size == 2
    for loader in ('train', 'val', 'test'):
        dataset = cfg[f'{loader}_dataloader'].dataset
        assert dataset.type == 'MatchedCocoDataset'
    if '_ft_' not in name:
        with pytest.raises(UserError, match='init_cfg.checkpoint=FILE'):
            model.init_weights()


@pytest.mark.parametrize(
    'name', [name for name in NAMES if name.startswith('mf-dec')])
def test_schedule_of_the_paper(name):
    cfg = load(name)
    lr, epochs, step = (1e-5, 200, 150) if '_ft_' in name else (1e-4, 500, 400)
    assert cfg.optim_wrapper.optimizer.lr == lr
    assert cfg.optim_wrapper.optimizer.weight_decay == 1e-4
    assert cfg.train_cfg.max_epochs == cfg.param_scheduler[-1].end == epochs
    assert cfg.param_scheduler[-1].milestones == [step]
    assert cfg.model.dropout == 0.1


def test_fine_tuning_needs_the_frozen_run(tiny_config):
    ft = load('mf-dec-211_mf-285m_ft_8xb2-200e_coco')
    tiny_config.custom_hooks = ft.custom_hooks
    with pytest.raises(UserError, match='load_from=FILE'):
        Runner.from_cfg(tiny_config).train()
