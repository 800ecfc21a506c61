# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Compare frozen encoders by the detectors that learn on them."""
import copy
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from mmdet.registry import DATASETS, MODELS
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.registry import RUNNERS, DefaultScope
from mmengine.runner import Runner
from mmengine.utils import ProgressBar
from torch.utils.data import Dataset

from .. import detection  # noqa: F401  registers its parts
from ..annotations import prepare_boxes
from ..config.reading import read_config
from ..errors import UserError
from ..trained.encoder import Encoder
from ..trained.encoder_file import export_encoder
from ..utils.settings import type_name
from .candidates import SIZE, calibrate, open_encoders
from .comparison import BoxComparison, Precision
from .comparison_page import (
    Shown,
    draw_curves,
    draw_neighbors,
    report_boxes,
    write_page,
)
from .features import extract_features, map_extractor, pool_maps
from .pictures import Pictures, load_crops, load_whole

#: Steps of each detector: enough for an order, not for the best AP.
STEPS = 120
#: Most crops to search for neighbors.
CROPS = 300
#: Images for the batch norm statistics of random weights; batch size.
WHOLE, BATCH = 64, 8


class Boxes:
    """The images and boxes to learn from, and to evaluate on.

    Args:
        config (Path): Written by :func:`prepare_boxes`.

    Attributes:
        config (Path): As given.
        choices (dict[int, list[int]]): Rows of a tenth of the training images
            with boxes, and of all images, by their number of boxes.
        images (int): Number of validation images.
        crops (list[Pictures]): Crops of training and validation images.
        whole (Pictures): Some training images in the detector's size.

    Raises:
        UserError: If the config counts epochs instead of steps, or trains the
            encoder.
    """

    def __init__(self, config: Path) -> None:
        cfg = read_config(str(config))
        if type_name(cfg.train_cfg) != 'IterBasedTrainLoop':
            raise UserError(
                f"'{config}' counts epochs, and encoders are compared after "
                'equal steps: prepare the boxes with --detector gfl, '
                'retinanet or mask-rcnn')
        with DefaultScope.overwrite_default_scope('mmdet'):
            network = MODELS.build(cfg.model.backbone)
            train = DATASETS.build(cfg.train_dataloader.dataset)
            val = DATASETS.build(cfg.val_dataloader.dataset)
        if any(weight.requires_grad for weight in network.parameters()):
            frozen = cfg.model.backbone.get('frozen_stages', -1)
            raise UserError(
                f"model.backbone.frozen_stages={frozen} in '{config}' trains "
                'the encoder, but only frozen ones are compared: remove that '
                'setting')
        self.config, self.images = config, len(val)
        self.choices = choose_rows(train)
        self.crops = [load_crops(train, CROPS, SIZE),
                      load_crops(val, CROPS, SIZE)]
        size = SIZE, SIZE
        for step in cfg.train_dataloader.dataset.pipeline:
            if type_name(step) == 'Resize':
                size = step.scale[::-1]  # height and width
        self.whole = load_whole(train, WHOLE, size)


def choose_rows(dataset: Dataset) -> dict[int, list[int]]:
    """Choose a tenth of the images with boxes, and all images, by boxes."""
    boxes = []
    for index in range(len(dataset)):
        instances = dataset.get_data_info(index)['instances']
        boxes.append(sum(not box['ignore_flag'] for box in instances))
    labeled = np.random.default_rng(0).permutation(np.flatnonzero(boxes))
    tenth = sorted(labeled[:max(len(labeled) // 10, 1)].tolist())
    choices = {}
    for rows in (tenth, list(range(len(boxes)))):
        choices[int(np.take(boxes, rows).sum())] = rows
    return choices


def compare_boxes(folder: Path,
                  encoders: Mapping[str, str | Path | Encoder], out: Path,
                  device: str = 'cpu') -> BoxComparison:
    """Compare frozen encoders on boxes; see :func:`compare`.

    Each encoder gets detectors of the same config, steps and batches.
    """
    opened, runs = open_encoders(encoders, device), {}
    config = folder / 'boxes.py'
    if not config.is_file():
        config = Path(prepare_boxes(str(folder), str(out / 'boxes')).config)
    boxes = Boxes(config)
    for name, encoder in opened.items():  # before any takes time
        calibrate(encoder, boxes.whole.loader(BATCH))
        runs[name] = configure(boxes, encoder, out / 'runs' / name)
    comparison, figures = BoxComparison(boxes.images, STEPS), {}
    try:
        for number, (name, encoder) in enumerate(opened.items(), 1):
            print(f'{name} ({number} of {len(opened)})')
            figures[f'nearest, {name}'] = find_nearest(
                name, encoder, boxes.crops)
            scores = {}
            for count, cfg in runs[name].items():
                scores[count] = train_detector(cfg)
            comparison.scores[name] = scores
    finally:  # what was found outlives an encoder that fails
        if comparison.scores:
            curves = draw_curves(comparison.curves, 'boxes', 'AP, %')
            write_page(out, comparison.advice, report_boxes(comparison),
                       dict(boxes=curves, **figures))
            comparison.write_csv(out / 'precisions.csv')
    return comparison


def configure(boxes: Boxes, encoder: Encoder, out: Path) -> dict[int, Config]:
    """Configure a detector on a frozen encoder for each number of boxes.

    Images are not flipped, so that each is encoded once.

    Args:
        boxes (Boxes): The data.
        encoder (Encoder): Written to ``out/encoder.safetensors``.
        out (Path): Its folder.

    Raises:
        UserError: If the encoder lacks the maps that the detector needs.
    """
    out.mkdir(parents=True, exist_ok=True)
    file = export_encoder(encoder, out / 'encoder.safetensors')
    common = read_config(str(boxes.config), dict(encoder=file))
    common.train_cfg.update(max_iters=STEPS, val_interval=STEPS)
    dataset = common.train_dataloader.dataset
    dataset.pipeline = [step for step in dataset.pipeline
                        if type_name(step) != 'RandomFlip']
    common.default_hooks.checkpoint = None
    common.log_level = 'ERROR'
    configs = {}
    for count, rows in boxes.choices.items():
        configs[count] = cfg = copy.deepcopy(common)
        cfg.train_dataloader.dataset.indices = rows
        cfg.work_dir = str(out / f'{count} boxes')
        cfg.visualizer.name = cfg.work_dir  # else that of the first run
    return configs


class StepBar(Hook):
    """Show the steps of a run."""

    def before_train(self, runner: Runner) -> None:
        """Start with none."""
        self.bar = ProgressBar(runner.max_iters, file=sys.stdout)

    def after_train_iter(self, *args, **kwargs) -> None:
        """Add a step."""
        self.bar.update()


def train_detector(cfg: Config) -> Precision:
    """Train a detector; return its precision on the validation images."""
    runner = RUNNERS.build(cfg)
    runner.register_hook(StepBar())
    runner.train()
    print()
    scores = []
    for name in ('bbox_mAP', 'bbox_mAP_50'):
        scalar = runner.message_hub.get_scalar(f'val/coco/{name}')
        scores.append(100 * float(scalar.current()))
    return Precision(*scores)


def find_nearest(name: str, encoder: Encoder, crops: Iterable[Pictures]
                 ) -> Figure:
    """Draw crops of validation images and their neighbors in training."""
    shown = []
    for pictures in crops:
        features, labels = extract_features(
            map_extractor(encoder), pictures.loader(64))
        shown.append(Shown(pool_maps(features)['1 x 1'], labels,
                           pictures.images.__getitem__))
    return draw_neighbors(f'nearest, {name}', *shown)
