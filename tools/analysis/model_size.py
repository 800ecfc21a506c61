# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The size of a config's model, counted on the meta device."""
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from torch import nn

from qbheat_mm.errors import UserError
from qbheat_mm.utils.complexity import count_madds, count_parameters


def build_without_memory(cfg: Config) -> nn.Module:
    """Build the model of a config on the meta device.

    Networks that read tensors while they are built (mmpretrain's ConvNeXt)
    are built in memory.
    """
    model = cfg.model.copy()
    if cfg.default_scope == 'mmpretrain':
        model.pop('train_cfg', None)  # batch augmentation
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
        tuple[int, int | None]: Parameters and multiply-adds, None if these
        depend on the content of tensors.
    """
    image = torch.empty(1, 3, *size, device='meta')
    if part != 'Detection heads':
        counted = model.backbone if part == 'Encoders' else model
        return count_parameters(counted), count_madds(counted, image)
    parameters = count_parameters(model) - count_parameters(model.backbone)
    # Deformable attention reads the sizes of the maps from a tensor.
    if hasattr(model, 'level_embed'):
        return parameters, None
    feats = model.eval().backbone(image)
    return parameters, count_madds(DetectionHead(model), *feats)


class DetectionHead(nn.Module):
    """Neck and heads of a detector of mmdet."""

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.detector = detector

    def forward(self, *feats: torch.Tensor):
        """Run neck and heads on maps, with as many regions as in tests."""
        detector = self.detector
        if hasattr(detector, 'forward_transformer'):
            return detector.bbox_head(**detector.forward_transformer(feats))
        maps = detector.neck(feats)
        if not hasattr(detector, 'roi_head'):
            return detector.bbox_head(maps)

        def regions(extractor: nn.Module, limits: Config) -> torch.Tensor:
            return maps[0].new_empty(limits.max_per_img,
                                     extractor.out_channels,
                                     *extractor.roi_layers[0].output_size)

        heads, limits = detector.roi_head, detector.test_cfg
        outs = [
            detector.rpn_head(maps),
            heads.bbox_head(regions(heads.bbox_roi_extractor, limits.rpn))]
        if heads.with_mask:
            outs.append(heads.mask_head(
                regions(heads.mask_roi_extractor, limits.rcnn)))
        if hasattr(detector, 'semantic_head'):
            outs.append(detector.semantic_head(maps))
        return outs
