"""Parameters and multiply-adds, against counts by hand."""
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from qbheat_mm.models.layers import FormerToMobile
from qbheat_mm.utils.complexity import count_madds, count_parameters


class Attention(nn.Module):

    def forward(self, query, key, value, mask=None):
        return F.scaled_dot_product_attention(query, key, value, mask)


class Products(nn.Module):

    def forward(self, a, b):
        return a @ b, torch.bmm(a, b), torch.einsum('bij,bjk->bik', a, b)


class Backbone(nn.Conv2d):
    """As ResNet of the toolboxes, which returns nothing here."""

    def train(self, mode=True):
        super().train(mode)


CASES = {
    # 10 * 14 positions * 3x3 * 6 inputs a group * 24 outputs
    'grouped conv': (nn.Conv2d(12, 24, 3, padding=1, groups=2),
                     [(2, 12, 10, 14)], 2 * 10 * 14 * 9 * 6 * 24),
    'depthwise, strided': (nn.Conv2d(12, 24, 3, 2, 1, groups=12),
                           [(1, 12, 10, 14)], 5 * 7 * 9 * 24),
    'of the toolboxes': (Backbone(2, 3, 1), [(1, 2, 4, 4)], 4 * 4 * 2 * 3),
    'linear': (nn.Linear(5, 7), [(3, 4, 5)], 3 * 4 * 5 * 7),
    'products': (Products(), [(2, 3, 4), (2, 4, 5)], 3 * 2 * 3 * 4 * 5),
    'attention': (Attention(), [(2, 4, 9, 8), (2, 4, 11, 8), (2, 4, 11, 8)],
                  2 * 4 * 9 * 11 * (8 + 8)),
    'masked attention': (Attention(), [
        (2, 4, 9, 8), (2, 4, 11, 8), (2, 4, 11, 8), (2, 1, 1, 11)],
                         2 * 4 * 9 * 11 * (8 + 8)),
    # Projections, scores and values of three tokens, once for any heads.
    **{f'tokens to pixels, {heads} heads': (
        FormerToMobile(16, 12, num_heads=heads), [(2, 16, 5, 7), (2, 3, 12)],
        2 * 3 * (12 * (16 + 16) + 16 * 5 * 7 + 16 * 5 * 7))
       for heads in (1, 2, 4)},
    'norms and activations': (nn.Sequential(
        nn.BatchNorm2d(4), nn.ReLU6(), nn.Upsample(scale_factor=2)),
                              [(1, 4, 6, 6)], 0),
}


@pytest.mark.parametrize('device', ['cpu', 'meta'])
@pytest.mark.parametrize('name', CASES)
def test_madds(name, device):
    module, shapes, madds = CASES[name]
    inputs = [torch.zeros(shape, device=device) for shape in shapes]
    assert count_madds(module, *inputs) == madds


def test_counting_leaves_the_module_alone():
    module = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    count_madds(module, torch.zeros(1, 3, 5, 5, device='meta'))
    assert module.training and not module[0].weight.is_meta
    assert all(p.requires_grad for p in module.parameters())
    assert module[1].num_batches_tracked == 0


def test_parameters():
    module = nn.ModuleDict(dict(a=nn.Linear(3, 4), b=nn.Linear(3, 4)))
    module['c'] = module['b']
    module['b'].requires_grad_(False)
    assert count_parameters(module) == 2 * (3 * 4 + 4)
