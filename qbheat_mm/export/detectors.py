# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Detectors as functions of tensors.

A batch is padded to the right and below; the sizes of its images are an
input. What mmdet does image by image with a varying number of boxes is left
out: score thresholds, NMS, rescaling.
"""
import torch
from mmdet.models.detectors import SingleStageDetector
from mmdet.models.task_modules import DeltaXYWHBBoxCoder
from mmdet.structures.bbox import bbox_cxcywh_to_xyxy, get_box_tensor
from torch import Tensor, nn

from ..detection import MobileFormerDETR
from ..errors import UserError
from .graphs import Graph

#: Heads that give scores and deltas of anchors, and decode no further. Heads
#: derived from them may, and are not accepted.
ANCHOR_HEADS = (
    'AnchorHead', 'FreeAnchorRetinaHead', 'PISARetinaHead', 'PISASSDHead',
    'RetinaHead', 'RetinaSepBNHead', 'SSDHead', 'YOLOFHead')


class MFDecNetwork(nn.Module):
    """Images to the queries' logits and boxes.

    Args:
        model (MobileFormerDETR): The detector.
    """

    def __init__(self, model: MobileFormerDETR) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor,
                image_sizes: Tensor) -> dict[str, Tensor]:
        """Detect.

        Args:
            images (Tensor): Normalized, zero in the padding, (B, 3, H, W).
            image_sizes (Tensor): Heights and widths, (B, 2), int64.

        Returns:
            dict[str, Tensor]: ``logits`` (B, queries, classes + 1), of which
            the last is "no object" (or (B, queries, classes) with sigmoid),
            and ``boxes`` (B, queries, 4), x1, y1, x2, y2 in pixels, inside
            the image.
        """
        feats = self.model.extract_feat(images)
        inputs, _ = self.model.pre_decoder(feats, image_sizes)
        states = self.model.forward_decoder(**inputs)['hidden_states']
        logits, boxes = self.model.bbox_head(states[-1])
        return dict(logits=logits, boxes=_in_pixels(boxes, image_sizes))


class AnchorNetwork(nn.Module):
    """Images to the scores and boxes of all anchors, as in RetinaNet.

    Args:
        model (SingleStageDetector): With an ``AnchorHead``.
    """

    def __init__(self, model: SingleStageDetector) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor,
                image_sizes: Tensor) -> dict[str, Tensor]:
        """Detect.

        Args:
            images (Tensor): Normalized, zero in the padding, (B, 3, H, W).
            image_sizes (Tensor): Heights and widths, (B, 2), int64.

        Returns:
            dict[str, Tensor]: ``scores`` (B, anchors, classes), from 0 to 1,
            ``boxes`` (B, anchors, 4), x1, y1, x2, y2 in pixels, inside the
            image if the coder clips them, and ``levels`` (anchors, ), the
            number of each anchor's map, of which mmdet takes the best
            ``nms_pre`` each.
        """
        head = self.model.bbox_head
        scores, deltas = head(self.model.extract_feat(images))
        anchors = head.prior_generator.grid_priors(
            [level.shape[-2:] for level in scores], device=images.device)
        levels = torch.cat([
            torch.full_like(anchor[:, 0], i, dtype=torch.int64)
            for i, anchor in enumerate(anchors)])
        scores = _all_anchors(scores, head.cls_out_channels)
        scores = scores.sigmoid() if head.use_sigmoid_cls else scores.softmax(
            -1)[..., :-1]
        deltas = _all_anchors(deltas, 4)
        anchors = torch.cat(anchors).expand_as(deltas)
        boxes = get_box_tensor(head.bbox_coder.decode(
            anchors.flatten(0, 1), deltas.flatten(0, 1)))
        boxes = boxes.unflatten(0, deltas.shape[:2])
        if head.bbox_coder.clip_border:
            boxes = _inside(boxes, _sides(image_sizes, boxes))
        return dict(scores=scores, boxes=boxes, levels=levels)


def detector_graph(model: nn.Module) -> Graph:
    """The outputs of a detector.

    Raises:
        UserError: If it is of a kind that cannot be exported.
    """
    head = getattr(model, 'bbox_head', None)
    if isinstance(model, MobileFormerDETR):
        return Graph(MFDecNetwork(model).eval(), ('logits', 'boxes'),
                     'MF-Dec', padded=True)
    if isinstance(model, SingleStageDetector) and type(
            head).__name__ in ANCHOR_HEADS and isinstance(
            head.bbox_coder, DeltaXYWHBBoxCoder):
        return Graph(AnchorNetwork(model).eval(),
                     ('scores', 'boxes', 'levels'), 'detector with anchors',
                     max(map(max, head.prior_generator.strides)), padded=True)
    raise UserError(
        f'{type(model).__name__} with {type(head).__name__} cannot be '
        'exported: MF-Dec can, and detectors of one stage with a head among '
        f'{", ".join(ANCHOR_HEADS)}; its encoder can, too (--part encoder)')


def _all_anchors(levels: list[Tensor], width: int) -> Tensor:
    """(B, A * width, h, w) of each level to (B, anchors, width)."""
    return torch.cat([
        level.permute(0, 2, 3, 1).reshape(level.shape[0], -1, width)
        for level in levels], dim=1)


def _in_pixels(boxes: Tensor, image_sizes: Tensor) -> Tensor:
    """Centers and sizes as shares of images to corners in pixels, inside."""
    sides = _sides(image_sizes, boxes)
    return _inside(bbox_cxcywh_to_xyxy(boxes) * sides, sides)


def _sides(image_sizes: Tensor, boxes: Tensor) -> Tensor:
    """Width, height, width, height of images, (B, 1, 4), as boxes are."""
    return image_sizes.flip(1).repeat(1, 2)[:, None].to(boxes.dtype)


def _inside(boxes: Tensor, sides: Tensor) -> Tensor:
    """Boxes (B, N, 4) clipped to images of ``sides`` (B, 1, 4)."""
    return torch.minimum(boxes.clamp(min=0), sides)
