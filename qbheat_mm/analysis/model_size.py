# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How large is a model of a config? Counted on the meta device."""
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from ..errors import UserError
from ..utils.complexity import count_madds, count_parameters


def build_without_memory(cfg: Config) -> nn.Module:
    """Build the model of a config on the meta device.

    Networks that read tensors while they are built (mmpretrain's ConvNeXt)
    are built in memory.
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
    """Count parameters and multiply-adds of a part of a model.

    Args:
        part (str): ``'Encoders'``, ``'Detection heads'`` (all but the
            encoder), or anything else for the whole model.
        model (nn.Module): From :func:`build_without_memory`.
        size (tuple[int, int]): Height and width of the image.

    Returns:
        tuple[int, int | None]: Multiply-adds are None if they depend on the
        content of tensors.
    """
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
    """A detector without its backbone, on the backbone's maps."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, *feats: torch.Tensor):
        """Run neck and heads; regions are as many as mmdet tests."""
        detector = self.detector
        if hasattr(detector, 'forward_transformer'):
            return detector.bbox_head(**detector.forward_transformer(feats))
        maps = detector.neck(feats)
        heads = getattr(detector, 'roi_head', None)
        if heads is None:
            return detector.bbox_head(maps)
        outs = [
            detector.rpn_head(maps),
            heads.bbox_head(_regions(maps, heads.bbox_roi_extractor,
                                     detector.test_cfg.rpn.max_per_img))]
        if heads.with_mask:
            outs.append(heads.mask_head(_regions(
                maps, heads.mask_roi_extractor,
                detector.test_cfg.rcnn.max_per_img)))
        if hasattr(detector, 'semantic_head'):
            outs.append(detector.semantic_head(maps))
        return outs


def _regions(maps: tuple[torch.Tensor, ...], extractor: nn.Module,
             number: int) -> torch.Tensor:
    return maps[0].new_empty(number, extractor.out_channels,
                             *extractor.roi_layers[0].output_size)
