"""Two processes train together.

One of them has not a single object, the other no padding.
"""
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from mmdet.registry import MODELS
from mmdet.utils import register_all_modules
from torch.nn.parallel import DistributedDataParallel

from .conftest import GivenFeatures, make_feats, make_samples

SIZES = [[(64, 64), (64, 64)], [(40, 64), (64, 50)]]  # of each process


class Losses(torch.nn.Module):
    """``forward`` gives the losses, for DistributedDataParallel."""

    def __init__(self, detector):
        super().__init__()
        self.detector = detector

    def forward(self, *args):
        return self.detector.loss(*args)


def train_two_steps(rank, config, folder):
    """What each process does: train, then save what it ended with."""
    torch.set_num_threads(1)
    register_all_modules()
    dist.init_process_group(
        'gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    torch.manual_seed(0)
    detector = MODELS.build(config)
    assert isinstance(detector.backbone, GivenFeatures)
    detector.backbone.feats = make_feats(SIZES[rank])
    # An unused parameter or a loss that depends on the rank stops here.
    model = DistributedDataParallel(Losses(detector))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    inputs, samples = make_samples(SIZES[rank], boxes=(3 - 3 * rank, ))
    for _ in range(2):
        losses = model(inputs, samples)
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
    torch.save(
        dict(
            losses={name: loss.item()
                    for name, loss in losses.items()},
            params=dict(detector.named_parameters())),
        f'{folder}/{rank}.pth')
    dist.destroy_process_group()


def test_one_rank_without_objects(head_config, tmp_path, monkeypatch):
    # The processes import this module by its name.
    monkeypatch.syspath_prepend(Path(__file__).parents[1])
    mp.spawn(train_two_steps, (head_config, str(tmp_path)), nprocs=2)
    ranks = [
        torch.load(tmp_path / f'{rank}.pth', weights_only=True)
        for rank in range(2)
    ]
    assert list(ranks[0]['losses']) == list(ranks[1]['losses'])
    for name, param in ranks[0]['params'].items():
        assert torch.isfinite(param).all()
        torch.testing.assert_close(param, ranks[1]['params'][name])
