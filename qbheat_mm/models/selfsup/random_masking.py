# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A control of QB-Heat: masked image modelling without the heat equation."""
import torch
from mmengine.registry import MODELS
from torch import Tensor

from ...errors import UserError
from .qbheat import QBHeat
from .quarters import Positions


@MODELS.register_module()
class RandomMasking(QBHeat):
    """Patches of the whole image are hidden at random, as in MAE and SimMIM.

    As many are hidden as in QB-Heat, three of four, but scattered. The
    encoder, being convolutional, gets the whole image, grey (the mean pixel)
    where patches are hidden, which costs it four times as much as a quarter
    does; the projection, the decoder, the target and the loss are those of
    :class:`QBHeat`, and nothing is extrapolated.

    Args:
        predictor (dict): As of :class:`QBHeat`; without linear models.
        **kwargs: Of :class:`QBHeat`.
    """

    def __init__(self, predictor: dict, **kwargs) -> None:
        super().__init__(
            predictor=dict(predictor, prediction='copy'), **kwargs)

    def loss(self,
             inputs: Tensor,
             data_samples: list | None = None) -> dict[str, Tensor]:
        """The pre-training loss of images (B, 3, H, W)."""
        hidden = self.sample(inputs)
        feats = self.encode(self.hide(inputs, hidden))
        z = self.predictor.proj(feats.permute(0, 2, 3, 1))
        pred = self.neck(z, hidden)
        return dict(loss=self.head.loss_at(pred, inputs, hidden))

    def predict_pixels(self, images: Tensor, positions: Positions,
              masked_ids: Tensor | None = None) -> Tensor:
        """Refuse: no quarter was ever all that this encoder saw.

        Raises:
            UserError: Always.
        """
        raise UserError('RandomMasking learns from patches all over the '
                        'image and paints none from a quarter')

    def sample(self, images: Tensor) -> Tensor:
        """Which patches to hide, 3 of 4 of each image, (B, M), int64."""
        height, width = (n // self.head.patch_size for n in images.shape[2:])
        order = torch.rand(len(images), height * width).argsort(dim=1)
        return order[:, :3 * height * width // 4].to(images.device)

    def hide(self, images: Tensor, hidden: Tensor) -> Tensor:
        """Images (B, 3, H, W) with 0, the mean pixel, in hidden patches."""
        self._check_size(*images.shape[2:])
        height, width = (n // self.head.patch_size for n in images.shape[2:])
        shown = images.new_ones(len(images), height * width)
        shown = shown.scatter(1, hidden, 0.).view(-1, 1, height, width)
        for axis in (2, 3):
            shown = shown.repeat_interleave(self.head.patch_size, dim=axis)
        return images * shown
