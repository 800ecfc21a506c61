# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Sizes of configured models, of the part that a table is about.

Models are built on the meta device: nothing is computed.
"""
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from ..errors import UserError
from ..utils.complexity import count_madds, count_parameters


def build_without_memory(cfg: Config) -> nn.Module:
    """Build the model of a configuration on the meta device.

    A network that reads numbers out of tensors while it is built (mmpretrain's
    ConvNeXt) cannot be built there and is built in memory.
    """
    model = cfg.model.copy()
    if cfg.default_scope == 'mmpretrain':
        model.pop('train_cfg', None)  # only augmentation
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        try:
            with torch.device('meta'):
                return MODELS.build(model)
        except (UserError, RuntimeError):
            return MODELS.build(model)


def count(part: str, model: nn.Module,
          size: tuple[int, int]) -> tuple[int, int | None]:
    """Parameters and MAdds of the part of a model that a row is about."""
    image = torch.empty(1, 3, *size, device='meta')
    if part == 'Encoders':
        return (count_parameters(model.backbone),
                count_madds(model.backbone, image))
    if part == 'Detection heads':
        parameters = count_parameters(model, exclude=('backbone.', ))
        # Deformable attention reads the sizes of the maps from a tensor.
        if hasattr(model, 'level_embed'):
            return parameters, None
        feats = model.eval().backbone(image)
        return parameters, count_madds(DetectionHead(model), *feats)
    return count_parameters(model), count_madds(model, image)


class DetectionHead(nn.Module):
    """All of a detector but its backbone, on the backbone's maps."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, *feats: torch.Tensor):
        if hasattr(self.detector, 'forward_transformer'):
            return self.detector.bbox_head(
                **self.detector.forward_transformer(feats))
        maps = self.detector.neck(feats)
        if hasattr(self.detector, 'roi_head'):
            return self.forward_two_stages(maps)
        return self.detector.bbox_head(maps)

    def forward_two_stages(self, maps: tuple[torch.Tensor, ...]) -> list:
        """On as many regions as mmdet takes in a test."""
        detector, heads = self.detector, self.detector.roi_head
        outs = [detector.rpn_head(maps)]
        number = detector.test_cfg.rpn.max_per_img
        for head, extractor in (('bbox', 'bbox_roi_extractor'),
                                ('mask', 'mask_roi_extractor')):
            if getattr(heads, f'with_{head}'):
                roi = getattr(heads, extractor)
                size = roi.roi_layers[0].output_size
                outs.append(getattr(heads, f'{head}_head')(maps[0].new_empty(
                    number, roi.out_channels, *size)))
            number = detector.test_cfg.rcnn.max_per_img
        if hasattr(detector, 'semantic_head'):
            outs.append(detector.semantic_head(maps))
        return outs
