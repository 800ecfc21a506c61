# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The shipped recipes: where their encoder comes from, and their data."""
import functools
import re
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from mmdet.datasets import CocoDataset, CocoPanopticDataset
from mmengine.config import Config

from .coco import draw_coco, draw_own
from .imagenet import draw_classes

ROOT = Path(__file__).parents[2]
STEPS = 3
LAST = f'iter_{STEPS}.pth'
#: Metrics of the toolboxes, besides PanopticFPN's.
METRICS = dict(mmdet='coco/bbox_mAP', mmpretrain='accuracy/top1')
#: Untrained detectors are sure of nothing; let them find something.
ANY_SCORE = dict(
    RetinaNet=['model.test_cfg.score_thr=0'],
    FCOS=['model.test_cfg.score_thr=0'],
    FasterRCNN=['model.test_cfg.rcnn.score_thr=0'],
    MaskRCNN=['model.test_cfg.rcnn.score_thr=0'])


class Recipe(NamedTuple):
    """A config, and what it needs.

    Attributes:
        name (str): The config, below ``configs``.
        run (str): Folder of the run; the same for configs that differ in the
            number of epochs only.
        start (str): Setting that takes the result of another run: 'encoder',
            'load_from', 'teacher' or none.
        origin (str): Folder of that run.
        toolbox (str): 'mmdet' or 'mmpretrain'.
        kind (str): What is trained, such as 'RetinaNet'.
        metric (str): What is measured, if anything.
        counts_steps (bool): Whether its length is in steps, not epochs.
    """
    name: str
    run: str
    start: str
    origin: str
    toolbox: str
    kind: str
    metric: str
    counts_steps: bool

    @property
    def config(self) -> str:
        return str(ROOT / 'configs' / self.name)

    @property
    def way(self) -> tuple:
        """What distinguishes the paths through runner and tools."""
        return self.toolbox, self.start, bool(self.metric), self.counts_steps

    @property
    def missing(self) -> str:
        """A package that it needs and that is not installed."""
        needs = 'panopticapi' if self.kind == 'PanopticFPN' else ''
        return needs if needs and not find_spec(needs) else ''

    @property
    def weights(self) -> list[str]:
        """The option that names the weights to start from."""
        if not self.start:
            return []
        file = LAST if self.start == 'load_from' else 'encoder.safetensors'
        return [f'{self.start}=runs/{self.origin}/{file}']

    def lengths(self, processes: int = 1) -> list[str]:
        """Options for an epoch of three steps, and for few images to test."""
        batch = 1 if self.toolbox == 'mmdet' else 4
        images = STEPS * batch * processes
        options = [f'train_dataloader.batch_size={batch}',
                   f'train_dataloader.dataset.indices={images}',
                   f'train_cfg.max_iters={STEPS}' if self.counts_steps else
                   'train_cfg.max_epochs=1',
                   'default_hooks.checkpoint.interval=1',
                   'default_hooks.checkpoint.by_epoch=False']
        if self.metric:
            options += ['train_cfg.val_interval=1',
                        'val_dataloader.dataset.indices=2',
                        'test_dataloader.dataset.indices=2']
        return options + ANY_SCORE.get(self.kind, [])


def short(name: str) -> str:
    """Return the name of a config without its epochs."""
    return re.sub(r'-\d+e(?=_)', '', Path(name).stem)


def is_large(name: str) -> bool:
    """Whether the encoder of a config is a large Mobile-Former."""
    return 'mf-1.0g' in name or 'mf-3.7g' in name


@functools.cache
def names() -> list[str]:
    """All shipped configs."""
    found = []
    for path in sorted((ROOT / 'configs').rglob('*.py')):
        name = path.relative_to(ROOT / 'configs').as_posix()
        if not name.startswith('_base_'):
            found.append(name)
    return found


@functools.cache
def read(name: str) -> Recipe:
    """Read what a config needs."""
    cfg = Config.fromfile(ROOT / 'configs' / name)
    start = origin = ''
    required = cfg.default_hooks.checkpoint_match.get('required')
    init = cfg.model.backbone.get('init_cfg') or {}
    if required:
        start, origin = 'load_from', short(f'{required}.py')
    elif init.get('type') == 'PretrainedEncoder':
        start, origin = 'encoder', _pretraining(name)
    kind = cfg.model.type
    if 'teacher' in cfg:  # optional there, always set here
        start, origin = 'teacher', _pretraining(name)
        kind = cfg.teacher_method
    if kind in ('ImageClassifier', 'MobileFormerDETR'):
        frozen = cfg.model.backbone.get('frozen_stages', -1) > 0
        kind += ', frozen' if frozen else ', trained'
    metric = cfg.get('val_evaluator') and METRICS[cfg.default_scope]
    if kind == 'PanopticFPN':
        metric = 'coco_panoptic/PQ'
    return Recipe(name, short(name), start, origin, cfg.default_scope, kind,
                  metric or '', 'max_iters' in cfg.train_cfg)


def _pretraining(name: str) -> str:
    """Return the run that provides the encoder of a config."""
    size = re.search(r'mf-(\d[\d.]*[mg])', name)[1]
    runs = [short(each) for each in names()]
    best = f'qbheat_mf-{size}_8xb128-amp-coslr_in1k'
    return best if best in runs else f'mf-{size}_8xb128-coslr_in1k'


def draw_all(folder: Path) -> None:
    """Draw ``data/`` where the configs look for it."""
    data = folder / 'data'
    draw_classes(data / 'imagenet', 1000, damaged=True)
    draw_classes(data / 'own', 100)
    (data / 'images').symlink_to('own/train')
    draw_own(data / 'own', 60, ('first', 'second'))
    draw_coco(data / 'coco', 240, CocoDataset.METAINFO['classes'],
              CocoPanopticDataset.METAINFO['classes'])
