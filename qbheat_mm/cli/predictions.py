# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Preprocess images; format and draw predictions."""
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.registry import DefaultScope
from mmengine.structures import BaseDataElement
from mmengine.visualization import Visualizer

from ..errors import UserError, printable
from ..utils.settings import (
    dataset_settings,
    prediction_transforms,
    toolbox,
    type_name,
)

if TYPE_CHECKING:
    from ..apis import Heads

#: Minimum score of objects if no validation suggests one.
SCORE = 0.3
#: Classes listed for an image, the most probable first.
TOP = 5


def group_by_pipeline(heads: 'Heads', size: Sequence[int] | None = None
                      ) -> list[tuple[Compose, 'Heads']]:
    """Group heads that prepare images alike, so that they share a pass.

    Args:
        heads (Heads): The heads.
        size (Sequence[int], optional): Shorter and longer side to scale
            images to, instead of the transforms of the test pipelines. All
            heads then share a pass.

    Returns:
        list[tuple[Compose, Heads]]: Test pipelines without annotations, and
        their heads, detectors first.

    Raises:
        UserError: If a config has no test pipeline.
    """
    detectors, classifiers = [], []
    for name, cfg in heads.configs.items():
        if toolbox(cfg) == 'mmdet':
            detectors.append(name)
        else:
            classifiers.append(name)
    groups = {}
    for name in [*detectors, *classifiers]:
        steps = '' if size else str(prediction_transforms(heads.configs[name]))
        groups.setdefault(steps, []).append(name)
    found = []
    for names in groups.values():
        # Detectors map boxes back to the original image.
        pipeline = _image_pipeline(heads.configs[names[0]], size)
        found.append((pipeline, heads.select(names)))
    return found


def _image_pipeline(cfg: Config, size: Sequence[int] | None) -> Compose:
    """Build a test pipeline without annotations."""
    pipeline = dataset_settings(cfg.get('test_dataloader') or cfg.get(
        'val_dataloader')).get('pipeline')
    if not pipeline:
        raise UserError(f"config '{cfg.filename}' has no test pipeline: set "
                        'test_dataloader.dataset.pipeline')
    # Our loader also accepts decoded images.
    load = dict(type='LoadImageFromFile', _scope_='qbheat_mm',
                color_type=pipeline[0].get('color_type', 'color'))
    steps = prediction_transforms(cfg)
    if size:
        padding = [step for step in steps if type_name(step) == 'PadToScale']
        steps = [dict(type='Resize', scale=tuple(size), keep_ratio=True),
                 *padding]
    with DefaultScope.overwrite_default_scope(toolbox(cfg)):
        return Compose([load, *steps, pipeline[-1]])


def prediction_to_json(sample: BaseDataElement, classes: Sequence[str],
                       score_thr: float) -> list[dict]:
    """Convert a prediction to JSON types, highest scores first.

    Args:
        sample (BaseDataElement): A data sample of mmpretrain or mmdet.
        classes (Sequence[str]): Class names; numbers replace missing ones.
        score_thr (float): Minimum score of objects.

    Returns:
        list[dict]: ``class`` and ``score``; for objects also ``box`` (x1, y1,
        x2, y2 in pixels of the original image) and ``mask`` (COCO run-length
        encoding); for panoptic segments ``class`` and ``mask``.
    """
    def item(label: int, **values) -> dict:
        name = classes[label] if label < len(classes) else str(label)
        return {'class': name, **values}

    if 'pred_score' in sample:
        scores, labels = sample.pred_score.sort(descending=True)
        return [item(label, score=score) for label, score in zip(
            labels[:TOP].tolist(), scores[:TOP].tolist())]
    from mmdet.evaluation import INSTANCE_OFFSET
    from mmdet.structures.mask import encode_mask_results
    items, masks = [], []
    if 'pred_instances' in sample:
        objects = sample.pred_instances
        objects = objects[objects.scores >= score_thr]
        objects = objects[objects.scores.argsort(descending=True)]
        masks += objects.get('masks', ())
        for single in objects:
            items.append(item(int(single.labels), score=float(single.scores),
                              box=single.bboxes[0].tolist()))
    if 'pred_panoptic_seg' in sample:
        segments = sample.pred_panoptic_seg.sem_seg[0]
        for number in segments.unique().tolist():
            label = number % INSTANCE_OFFSET
            if label < len(classes):
                items.append(item(label))
                masks.append(segments == number)
    for described, mask in zip(items, encode_mask_results(masks)):
        described['mask'] = {**mask, 'counts': mask['counts'].decode()}
    return items


def draw(image: np.ndarray, samples: Mapping[str, BaseDataElement],
         heads: 'Heads', scores: Mapping[str, float]) -> np.ndarray:
    """Draw objects with mmdet's visualizer, and the most probable classes.

    Args:
        image (np.ndarray): (H, W, 3), RGB, uint8.
        samples (Mapping[str, BaseDataElement]): A data sample of each head.
        heads (Heads): The heads, which know the class names.
        scores (Mapping[str, float]): Minimum score of objects of each head.
    """
    lines, size = [], max(10, max(image.shape) // 50)
    for name, sample in samples.items():
        classes = heads.trained[name].classes
        if 'pred_score' in sample:
            best, *_ = prediction_to_json(sample, classes, scores[name])
            lines.append(f"{name}: {best['class']} {best['score']:.2f}")
            continue
        from mmdet.visualization import DetLocalVisualizer
        visualizer = DetLocalVisualizer(line_width=1 + size // 16, alpha=.5)
        visualizer.dataset_meta = dict(
            classes=[printable(title) for title in classes] or None)
        visualizer.add_datasample(name, image, sample, draw_gt=False,
                                  pred_score_thr=scores[name])
        image = visualizer.get_image()
    if not lines:
        return image
    return Visualizer(image=image).draw_texts(
        printable('\n'.join(lines)), np.array([2, 2]), font_sizes=size,
        colors='white', bboxes=[dict(facecolor='black', alpha=0.5, pad=1)]
    ).get_image()
