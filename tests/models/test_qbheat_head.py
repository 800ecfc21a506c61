# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The pre-training target and loss, compared with MAE's."""
import pytest
import torch
from mmpretrain.models.heads import MAEPretrainHead

from qbheat_mm.models.selfsup import QBHeatPretrainHead

LOSS = dict(type='PixelReconstructionLoss', criterion='L2')


@pytest.fixture
def images():
    torch.manual_seed(0)
    # Patches of different contrast, one without any, and one of so little
    # that the epsilon counts.
    images = torch.randn(2, 3, 32, 32) * torch.rand(2, 3, 1, 1) * 9 + 1
    images[0, :, :8, :8] = 0.5
    images[0, :, 8:16, :8] = 1e-3 * torch.randn(3, 8, 8)
    return images


@pytest.mark.parametrize('norm_pix', [True, False])
def test_target_and_loss_equal_maes(images, norm_pix):
    ours = QBHeatPretrainHead(norm_pix=norm_pix, patch_size=8)
    mae = MAEPretrainHead(LOSS, norm_pix=norm_pix, patch_size=8)
    torch.testing.assert_close(
        ours.target(images), mae.construct_target(images))
    pred = torch.randn(2, 16, 192, requires_grad=True)
    mask = (torch.rand(2, 16) < 0.75).float()
    losses = [head.loss(pred, images, mask) for head in (ours, mae)]
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(
        *(torch.autograd.grad(loss, pred)[0] for loss in losses))
    torch.testing.assert_close(
        ours.unpatchify(pred, 32, 32), mae.unpatchify(pred))


def test_the_loss_is_divided_by_its_channels_without_a_mask(images):
    pred = torch.randn(2, 16, 192)
    losses = []
    for channel in (1, 4):
        head = QBHeatPretrainHead(
            patch_size=8, loss=dict(LOSS, channel=channel))
        losses.append(head.loss(pred, images))
    torch.testing.assert_close(losses[0], 4 * losses[1])


def test_images_need_not_be_square(images):
    """Compared with MAE on the two squares of the image."""
    ours = QBHeatPretrainHead(patch_size=8)
    mae = MAEPretrainHead(LOSS, norm_pix=True, patch_size=8)
    tall = torch.cat([images[:1], images[1:]], dim=2)
    expected = torch.cat([mae.construct_target(images[i:i + 1])
                          for i in range(2)], dim=1)
    torch.testing.assert_close(ours.target(tall), expected)
    torch.testing.assert_close(
        ours.unpatchify(ours.patchify(tall), 64, 32), tall)


def test_other_loss_module(images):
    ours = QBHeatPretrainHead(dict(LOSS, criterion='L1'), patch_size=8)
    pred = ours.target(images) + torch.tensor([3., -1.])[:, None, None]
    mask = torch.ones(2, 16)
    mask[0, :8] = 0  # 8 patches off by 3, 16 by 1
    torch.testing.assert_close(
        ours.loss(pred, images, mask), torch.tensor(40 / 24))


@pytest.mark.parametrize('dtype', [torch.float16, torch.bfloat16])
def test_loss_is_computed_in_full_precision(images, dtype):
    """300 squared is beyond float16."""
    head = QBHeatPretrainHead(patch_size=8)
    pred = torch.full((2, 16, 192), 300., dtype=dtype)
    mask = torch.ones(2, 16)
    loss = head.loss(pred, images, mask)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, head.loss(pred.float(), images, mask))
