# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Detectors as functions of tensors, ready to be exported.

A batch is padded to the right and below, and the sizes of the images in it
are an input. What mmdet does to one image after another, with as many boxes
as there are, is left out: the choice of the best, NMS, scaling back.
"""
import torch
from mmdet.models.dense_heads.base_dense_head import BaseDenseHead
from mmdet.models.detectors import SingleStageDetector
from mmdet.models.task_modules import DeltaXYWHBBoxCoder
from mmdet.structures import DetDataSample
from mmdet.structures.bbox import bbox_cxcywh_to_xyxy, get_box_tensor
from torch import Tensor, nn

from ..detection import MobileFormerDETR
from ..errors import UserError
from .graphs import IMAGES, SIZES, Graph, folded
from .source import Source


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
            images (Tensor): Normalised, zero in the padding, (B, 3, H, W).
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
            images (Tensor): Normalised, zero in the padding, (B, 3, H, W).
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


def detector_graph(source: Source) -> Graph:
    """A detector of a kind that can be exported.

    Raises:
        UserError: If it is none.
    """
    model = source.model
    if isinstance(model, MobileFormerDETR):
        return mf_dec_graph(source)
    if isinstance(model, SingleStageDetector) and hasattr(
            model.bbox_head, 'bbox_coder'):
        return anchor_graph(source)
    raise UserError(
        f'{type(model).__name__} cannot be exported: of detectors MF-Dec and '
        'those of one stage with anchors, as RetinaNet, can; its encoder can '
        '(--part encoder)')


def mf_dec_graph(source: Source) -> Graph:
    """Logits and boxes of MF-Dec."""
    model = source.model

    def reference(images: Tensor, image_sizes: Tensor) -> dict[str, Tensor]:
        samples = samples_of(images, image_sizes)
        states = model._hidden_states(images, samples)
        logits, boxes = model.bbox_head(states)
        return dict(
            logits=logits[-1], boxes=_in_pixels(boxes[-1], image_sizes))

    return Graph(
        MFDecNetwork(folded(model)), reference, (IMAGES, SIZES),
        ('logits', 'boxes'), 'MF-Dec', 32)


def anchor_graph(source: Source) -> Graph:
    """Scores and boxes of a single-stage detector with anchors.

    Raises:
        UserError: If its boxes are not decoded from anchors alone.
    """
    model = source.model
    head = model.bbox_head
    own = type(head)._predict_by_feat_single
    if own is not BaseDenseHead._predict_by_feat_single or not isinstance(
            head.bbox_coder, DeltaXYWHBBoxCoder):
        raise UserError(
            f'{type(model).__name__} with a {type(head).__name__} cannot be '
            'exported: its boxes are decoded in a way of their own; its '
            'encoder can (--part encoder)')
    side = 2 * max(map(max, head.prior_generator.strides))
    with torch.no_grad():
        maps = model(torch.zeros(1, 3, side, side), mode='tensor')
    if len(maps) != 2:
        raise UserError(
            f'{type(model).__name__} with a {type(head).__name__} cannot be '
            f'exported: its head gives {len(maps)} kinds of maps and not '
            'scores and boxes alone; its encoder can (--part encoder)')

    def reference(images: Tensor, image_sizes: Tensor) -> dict[str, Tensor]:
        return _decoded_by_mmdet(model, images, image_sizes)

    return Graph(
        AnchorNetwork(folded(model)), reference, (IMAGES, SIZES),
        ('scores', 'boxes', 'levels'), 'detector with anchors',
        max(map(max, head.prior_generator.strides)))


def _decoded_by_mmdet(model: SingleStageDetector, images: Tensor,
                      image_sizes: Tensor) -> dict[str, Tensor]:
    """Scores and boxes, image by image and level by level, as mmdet does."""
    head = model.bbox_head
    maps = model(images, samples_of(images, image_sizes), mode='tensor')
    anchors = head.prior_generator.grid_priors(
        [level.shape[-2:] for level in maps[0]], device=images.device)
    scores, boxes = [], []
    for i, size in enumerate(image_sizes.tolist()):
        for score, delta, anchor in zip(*maps, anchors):
            score = score[i].permute(1, 2, 0).reshape(
                -1, head.cls_out_channels)
            delta = delta[i].permute(1, 2, 0).reshape(-1, 4)
            scores.append(score.sigmoid() if head.use_sigmoid_cls
                          else score.softmax(-1)[:, :-1])
            boxes.append(get_box_tensor(head.bbox_coder.decode(
                anchor, delta, max_shape=size)))
    images = len(image_sizes)
    levels = torch.cat([torch.full((len(anchor), ), i)
                        for i, anchor in enumerate(anchors)])
    return dict(
        scores=torch.cat(scores).unflatten(0, (images, -1)),
        boxes=torch.cat(boxes).unflatten(0, (images, -1)), levels=levels)


def samples_of(images: Tensor, image_sizes: Tensor) -> list[DetDataSample]:
    """mmdet's samples of a padded batch."""
    shape = tuple(images.shape[-2:])
    return [
        DetDataSample(metainfo=dict(
            img_shape=(h, w), ori_shape=(h, w), batch_input_shape=shape,
            scale_factor=(1., 1.)))
        for h, w in image_sizes.tolist()]


def _all_anchors(levels: list[Tensor], width: int) -> Tensor:
    """(B, A * width, h, w) of each level to (B, anchors, width)."""
    return torch.cat([
        level.permute(0, 2, 3, 1).reshape(level.shape[0], -1, width)
        for level in levels], dim=1)


def _in_pixels(boxes: Tensor, image_sizes: Tensor) -> Tensor:
    """Centres and sizes as shares of images to corners in pixels, inside."""
    sides = _sides(image_sizes, boxes)
    return _inside(bbox_cxcywh_to_xyxy(boxes) * sides, sides)


def _sides(image_sizes: Tensor, boxes: Tensor) -> Tensor:
    """Width, height, width, height of images, (B, 1, 4), as boxes are."""
    return image_sizes.flip(1).repeat(1, 2)[:, None].to(boxes.dtype)


def _inside(boxes: Tensor, sides: Tensor) -> Tensor:
    """Boxes (B, N, 4) clipped to images of ``sides`` (B, 1, 4)."""
    return torch.minimum(boxes.clamp(min=0), sides)
