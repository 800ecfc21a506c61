import pytest
import torch
from mmengine.registry import DefaultScope
from mmengine.runner import Runner


@pytest.fixture(autouse=True)
def quiet_runner(monkeypatch):
    """Runners that do not ask the machine for its compilers."""
    monkeypatch.setattr(Runner, '_log_env', lambda self, env_cfg: None)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    DefaultScope._instance_dict.clear()
