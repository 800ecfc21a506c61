# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Prepare images for heads, and describe and draw what they find."""
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from mmengine.dataset import Compose
from mmengine.registry import DefaultScope
from mmengine.structures import BaseDataElement
from mmengine.visualization import Visualizer

from ..apis import Heads
from ..errors import UserError
from ..utils.settings import toolbox, type_name

#: Classes that are listed for an image, the most probable first.
TOP = 5
# How mmdet encodes class and instance of panoptic segments.
_INSTANCES = 1000


def image_pipeline(heads: Heads, size: Sequence[int] | None = None
                   ) -> Callable[[dict], dict]:
    """What a run does to images in tests, for images without annotations.

    Args:
        heads (Heads): The first detector decides, since its transforms tell
            where the original pixels are, or else the first head.
        size (Sequence[int], optional): Shorter and longer side that images
            are scaled to fit, instead of the run's transforms.

    Raises:
        UserError: If the config does not say.
    """
    configs = list(heads.configs.values())
    cfg = min(configs, key=lambda cfg: toolbox(cfg) != 'mmdet')
    dataset = (cfg.get('test_dataloader') or cfg.get('val_dataloader')
               or {}).get('dataset', {})
    while 'pipeline' not in dataset and 'dataset' in dataset:
        dataset = dataset['dataset']
    if not dataset.get('pipeline'):
        raise UserError(f"config '{cfg.filename}' does not say how to prepare "
                        'images: set test_dataloader.dataset.pipeline')
    _, *steps, last = dataset['pipeline']
    if size:
        steps = [dict(type='Resize', scale=tuple(size), keep_ratio=True)]
    # Accepts images that were read.
    load = dict(type='LoadImageFromFile', _scope_='qbheat_mm')
    with DefaultScope.overwrite_default_scope(toolbox(cfg)):
        return Compose([load, *(
            step for step in steps
            if not type_name(step).endswith('Annotations')), last])


def describe(sample: BaseDataElement, classes: Sequence[str],
             least: float) -> list[dict]:
    """Describe a prediction in plain values, the surest first.

    Args:
        sample (BaseDataElement): A data sample of mmpretrain or mmdet.
        classes (Sequence[str]): Names; numbers are used where there is none.
        least (float): Lowest score of objects.

    Returns:
        list[dict]: ``class`` and ``score``; of objects ``box``, x1, y1, x2,
        y2 in pixels of the original image, and ``mask``, COCO's run-length
        encoding; of panoptic segments only ``class`` and ``mask``.
    """
    def name(label: int) -> str:
        return classes[label] if label < len(classes) else str(label)

    if 'pred_score' in sample:
        scores, labels = sample.pred_score.sort(descending=True)
        return [{'class': name(label), 'score': score} for label, score in zip(
            labels[:TOP].tolist(), scores[:TOP].tolist())]
    items = []
    if 'pred_instances' in sample:
        found = sample.pred_instances
        found = found[found.scores >= least]
        found = found[found.scores.argsort(descending=True)]
        items = [{'class': name(label), 'score': score, 'box': box}
                 for label, score, box in zip(
                     found.labels.tolist(), found.scores.tolist(),
                     found.bboxes.tolist())]
        for item, mask in zip(items, found.get('masks', ())):
            item['mask'] = _encode(mask.cpu().numpy())
    if 'pred_panoptic_seg' in sample:
        segments = sample.pred_panoptic_seg.sem_seg[0].cpu().numpy()
        items += [{'class': name(i % _INSTANCES),
                   'mask': _encode(segments == i)}
                  for i in np.unique(segments).tolist()
                  if i % _INSTANCES < len(classes)]
    return items


def draw(image: np.ndarray, found: Mapping[str, BaseDataElement],
         heads: Heads, least: float) -> np.ndarray:
    """Draw what heads found with mmdet's visualizer, and the best classes.

    Args:
        image (np.ndarray): (H, W, 3), RGB, uint8.
        found (Mapping[str, BaseDataElement]): A data sample of each head.
        heads (Heads): Which found it.
        least (float): Lowest score of objects.
    """
    lines, size = [], max(10, max(image.shape) // 50)
    for name, sample in found.items():
        classes = heads.trained[name].classes
        if 'pred_score' in sample:
            best, *_ = describe(sample, classes, least)
            lines.append(f"{name}: {best['class']} {best['score']:.2f}")
            continue
        from mmdet.visualization import DetLocalVisualizer
        painter = DetLocalVisualizer(line_width=1 + size // 16, alpha=.5)
        painter.dataset_meta = dict(classes=classes or None)
        painter.add_datasample(name, image, sample, draw_gt=False,
                               pred_score_thr=least)
        image = painter.get_image()
    if not lines:
        return image
    return Visualizer(image=image).draw_texts(
        '\n'.join(lines), np.array([2, 2]), font_sizes=size, colors='white',
        bboxes=[dict(facecolor='black', alpha=0.5, pad=1)]).get_image()


def _encode(mask: np.ndarray) -> dict:
    """COCO's run-length encoding of a mask (H, W), with text for JSON."""
    from pycocotools import mask as coco
    code = coco.encode(np.asfortranarray(mask, np.uint8))
    return dict(size=list(map(int, code['size'])),
                counts=code['counts'].decode())
