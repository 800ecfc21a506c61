# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Prepare images for heads, and describe and draw what they find."""
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from mmengine.dataset import Compose
from mmengine.registry import DefaultScope
from mmengine.structures import BaseDataElement
from PIL import Image, ImageDraw, ImageFont

from ..analysis.style import COLORS
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
    configs = [cfg for cfg, _ in heads.runs.values()]
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


def draw(image: np.ndarray,
         found: Mapping[str, Sequence[Mapping]]) -> Image.Image:
    """Draw what heads found into an image.

    Args:
        image (np.ndarray): (H, W, 3), RGB, uint8.
        found (Mapping[str, Sequence[Mapping]]): Of :func:`describe`, by head.
    """
    picture = Image.fromarray(image)
    pen = ImageDraw.Draw(picture)
    size = max(10, max(picture.size) // 50)
    text = dict(fill='white', stroke_fill='black', stroke_width=size // 8,
                font=ImageFont.load_default(size))
    top = 0
    for (name, items), color in zip(found.items(), COLORS * len(found)):
        for item in items:
            label = ' '.join([item['class'], *(
                f'{item[key]:.2f}' for key in ('score', ) if key in item)])
            if 'mask' in item:
                mask = Image.fromarray(_decode(item['mask']) * np.uint8(110))
                picture.paste(color, None, mask)
            if 'box' in item:
                pen.rectangle(item['box'], outline=color,
                              width=1 + size // 16)
                pen.text(item['box'][:2], label, **text)
        if items and not {'box', 'mask'} & set(items[0]):
            pen.text((2, top), '{}: {class} {score:.2f}'.format(
                name, **items[0]), **text)
            top += size + 2
    return picture


def _encode(mask: np.ndarray) -> dict:
    """COCO's run-length encoding of a mask (H, W), with text for JSON."""
    from pycocotools import mask as coco
    code = coco.encode(np.asfortranarray(mask, np.uint8))
    return dict(size=list(map(int, code['size'])),
                counts=code['counts'].decode())


def _decode(code: Mapping) -> np.ndarray:
    """The mask (H, W), uint8, 0 or 1."""
    from pycocotools import mask as coco
    return coco.decode(dict(code))
