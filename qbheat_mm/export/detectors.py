# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Detectors as functions of tensors.

Score thresholds, NMS and rescaling are left to the caller, since the number of
boxes varies between images.
"""
from collections.abc import Sequence

import torch
from mmdet.models.detectors import SingleStageDetector
from mmdet.models.task_modules import DeltaXYWHBBoxCoder
from mmdet.structures.bbox import (
    bbox_cxcywh_to_xyxy,
    distance2bbox,
    get_box_tensor,
)
from torch import Tensor, nn

from ..detection import MobileFormerDETR
from ..errors import UserError
from .network import IMAGES, SIZES, Network

#: Heads that predict scores and deltas of anchors and decode no further;
#: subclasses may, and are not accepted.
ANCHOR_HEADS = (
    'AnchorHead', 'FreeAnchorRetinaHead', 'PISARetinaHead', 'PISASSDHead',
    'RetinaHead', 'RetinaSepBNHead', 'SSDHead', 'YOLOFHead')


class MFDecNetwork(Network):
    """The queries' logits and boxes of :class:`MobileFormerDETR`.

    ``logits`` (B, queries, classes + 1), of which the last is "no object"
    (or (B, queries, classes) with sigmoid), and ``boxes`` (B, queries, 4),
    x1, y1, x2, y2 in pixels, clipped to the image.
    """
    kind = 'MF-Dec'
    inputs = (IMAGES, SIZES)
    outputs = ('logits', 'boxes')

    def decode(self, feats: tuple[Tensor, ...], shape: Sequence[int],
               image_sizes: Tensor | None = None) -> dict[str, Tensor]:
        """Detect."""
        model = self.model
        if model.with_neck:
            feats = model.neck(feats)
        inputs, _ = model.pre_decoder(feats, image_sizes)
        states = model.forward_decoder(**inputs)['hidden_states']
        logits, boxes = model.bbox_head(states[-1])
        sides = _sides(shape, image_sizes, boxes)
        boxes = _clip(bbox_cxcywh_to_xyxy(boxes) * sides, sides)
        return dict(logits=logits, boxes=boxes)


class AnchorNetwork(Network):
    """Scores and boxes of all anchors of a one-stage detector.

    ``scores`` (B, anchors, classes), 0 to 1, ``boxes`` (B, anchors, 4), x1,
    y1, x2, y2 in pixels, clipped to the image if the coder clips, and
    ``levels`` (anchors, ), the index of each anchor's map, of which mmdet
    takes the best ``nms_pre`` each.

    Args:
        model (SingleStageDetector): With an ``AnchorHead``.
    """
    kind = 'detector with anchors'
    inputs = (IMAGES, SIZES)
    outputs = ('scores', 'boxes', 'levels')

    def __init__(self, model: SingleStageDetector) -> None:
        super().__init__(model)
        self.stride = max(map(max, model.bbox_head.prior_generator.strides))

    def decode(self, feats: tuple[Tensor, ...], shape: Sequence[int],
               image_sizes: Tensor | None = None) -> dict[str, Tensor]:
        """Detect."""
        head = self.model.bbox_head
        if self.model.with_neck:
            feats = self.model.neck(feats)
        scores, deltas = head(feats)
        anchors = head.prior_generator.grid_priors(
            [level.shape[-2:] for level in scores], device=scores[0].device)
        numbers = []
        for i, anchor in enumerate(anchors):
            numbers.append(torch.full_like(anchor[:, 0], i, dtype=torch.int64))
        scores = _all_anchors(scores, head.cls_out_channels)
        scores = scores.sigmoid() if head.use_sigmoid_cls else scores.softmax(
            -1)[..., :-1]
        boxes = self.decode_boxes(anchors, deltas)
        if head.bbox_coder.clip_border:
            boxes = _clip(boxes, _sides(shape, image_sizes, boxes))
        return dict(scores=scores, boxes=boxes, levels=torch.cat(numbers))

    def decode_boxes(self, anchors: list[Tensor],
                     levels: list[Tensor]) -> Tensor:
        """Decode the head's predictions for the anchors of each level.

        Args:
            anchors (list[Tensor]): (h * w * A, 4) of each level.
            levels (list[Tensor]): (B, A * 4, h, w) of each level.

        Returns:
            Tensor: Boxes, (B, anchors, 4).
        """
        deltas = _all_anchors(levels, 4)
        boxes = get_box_tensor(self.model.bbox_head.bbox_coder.decode(
            torch.cat(anchors).expand_as(deltas).flatten(0, 1),
            deltas.flatten(0, 1)))
        return boxes.unflatten(0, deltas.shape[:2])


class DistributionNetwork(AnchorNetwork):
    """An :class:`AnchorNetwork` of GFL.

    Its head predicts the distribution of the distances, in strides, from the
    center of an anchor to the sides of its box.
    """

    def decode_boxes(self, anchors: list[Tensor],
                     levels: list[Tensor]) -> Tensor:
        """Decode (B, 4 * (reg_max + 1), h, w) of each level."""
        head, boxes = self.model.bbox_head, []
        strides = head.prior_generator.strides
        for own, level, (stride, _) in zip(anchors, levels, strides):
            logits = _all_anchors([level], 4 * (head.reg_max + 1))
            distances = stride * head.integral(logits.flatten(0, 1))
            distances = distances.unflatten(0, logits.shape[:2])
            centers = (own[:, :2] + own[:, 2:]) / 2
            boxes.append(distance2bbox(
                centers.expand_as(distances[..., :2]), distances))
        return torch.cat(boxes, dim=1)


def detector_network(model: nn.Module) -> Network:
    """Turn a detector into a function of tensors.

    Raises:
        UserError: If this kind of detector cannot be exported.
    """
    head = getattr(model, 'bbox_head', None)
    if isinstance(model, MobileFormerDETR):
        return MFDecNetwork(model)
    if isinstance(model, SingleStageDetector) and type(
            head).__name__ in ANCHOR_HEADS and isinstance(
            head.bbox_coder, DeltaXYWHBBoxCoder):
        return AnchorNetwork(model)
    if isinstance(model, SingleStageDetector) and type(
            head).__name__ == 'GFLHead':
        return DistributionNetwork(model)
    kind = type(model).__name__ + (
        f' with {type(head).__name__}' if head is not None else '')
    raise UserError(
        f'{kind} cannot be exported, only MF-Dec and one-stage detectors '
        f'with one of GFLHead, {", ".join(ANCHOR_HEADS)}; its encoder can '
        '(--part encoder)')


def _all_anchors(levels: list[Tensor], width: int) -> Tensor:
    """(B, A * width, h, w) of each level to (B, anchors, width)."""
    rows = []
    for level in levels:
        level = level.permute(0, 2, 3, 1)
        rows.append(level.reshape(level.shape[0], -1, width))
    return torch.cat(rows, dim=1)


def _sides(shape: Sequence[int], image_sizes: Tensor | None,
           boxes: Tensor) -> Tensor:
    """Width, height, width, height of images, (B or 1, 1, 4)."""
    if image_sizes is None:  # sides may be symbols, which no tensor holds
        height = boxes.new_full((1, 1, 1), shape[0])
        width = boxes.new_full((1, 1, 1), shape[1])
        return torch.cat([width, height, width, height], -1)
    return image_sizes.flip(1).repeat(1, 2)[:, None].to(boxes.dtype)


def _clip(boxes: Tensor, sides: Tensor) -> Tensor:
    """Clip boxes (B, N, 4) to images of ``sides`` (B, 1, 4)."""
    return torch.minimum(boxes.clamp(min=0), sides)
