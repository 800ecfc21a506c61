# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What mmdet takes from panopticapi, which no package index has.

Ids of segments in three colours, and sums for the panoptic quality of
Kirillov et al., "Panoptic Segmentation" (CVPR 2019, Section 4): IoU of the
matched segments / (matched + missed / 2 + too many / 2). What matches, mmdet
finds out itself.
"""
import importlib
import importlib.util
import sys
from collections import defaultdict
from types import ModuleType, SimpleNamespace

import numpy as np

OFFSET, VOID = 1 << 24, 0
BYTES = (1, 256, 65536)
USERS = ('mmdet.evaluation.functional.panoptic_utils',
         'mmdet.evaluation.metrics.coco_panoptic_metric')


def rgb2id(colours):
    return np.asarray(colours).astype(np.int32) @ BYTES


def id2rgb(ids):
    return np.stack([ids // place % 256 for place in BYTES], -1)


class PQStat:
    """Sums for each class."""

    def __init__(self):
        self.sums = defaultdict(
            lambda: SimpleNamespace(iou=0., tp=0, fp=0, fn=0))

    def __getitem__(self, category):
        return self.sums[category]

    def __iadd__(self, other):
        for category, sums in other.sums.items():
            for name, value in vars(sums).items():
                setattr(self[category], name,
                        getattr(self[category], name) + value)
        return self

    def pq_average(self, categories, isthing):
        """Means over classes that occur, and each class's own."""
        each = {}
        for name, category in categories.items():
            sums = self[name]
            errors = sums.tp + (sums.fp + sums.fn) / 2
            if errors and isthing in (None, bool(category['isthing'])):
                each[name] = dict(
                    pq=sums.iou / errors, rq=sums.tp / errors,
                    sq=sums.iou / max(sums.tp, 1))
        means = {key: np.mean([row[key] for row in each.values()] or [0.])
                 for key in ('pq', 'sq', 'rq')}
        return dict(means, n=len(each)), each


def provide(monkeypatch):
    """Let mmdet find the package, unless it is installed."""
    if importlib.util.find_spec('panopticapi') is not None:
        return
    package = ModuleType('panopticapi')
    package.utils = ModuleType('panopticapi.utils')
    package.utils.rgb2id = rgb2id
    monkeypatch.setitem(sys.modules, 'panopticapi', package)
    monkeypatch.setitem(sys.modules, 'panopticapi.utils', package.utils)
    parts = dict(panopticapi=package, rgb2id=rgb2id, id2rgb=id2rgb,
                 OFFSET=OFFSET, VOID=VOID, PQStat=PQStat)
    for name in USERS:
        for part, value in parts.items():
            monkeypatch.setattr(
                importlib.import_module(name), part, value, raising=False)
