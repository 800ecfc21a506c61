# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The features that the linear models act on."""
import torch
from torch import Tensor

from ..models.selfsup import QBHeat
from ..models.selfsup.quarters import CORNERS
from .matrices import evaluating


@torch.no_grad()
def projected_features(model: QBHeat, images: Tensor,
                       by_quarter: bool = False) -> Tensor:
    """The encoder's last features z, projected as the predictor does.

    Args:
        model (QBHeat): With encoder and predictor.
        images (Tensor): Normalized images, (B, 3, H, W).
        by_quarter (bool): Encode the four quarters one by one, as in
            pre-training, where the encoder never sees more; by default the
            whole image, as in all later use.

    Returns:
        Tensor: (B, h, w, D).
    """
    with evaluating(model):
        if not by_quarter:
            return _project(model, model.encode(images))
        quarters = {
            cell: _project(model, model.encode(
                model.crop(images, [(place, len(images))])))
            for place, cell in CORNERS.items()
        }
    rows = [torch.cat([quarters[0, row], quarters[1, row]], dim=2)
            for row in (0, 1)]
    return torch.cat(rows, dim=1)


def _project(model: QBHeat, feats: Tensor) -> Tensor:
    return model.predictor.proj(feats.permute(0, 2, 3, 1))
