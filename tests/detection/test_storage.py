# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Data sets whose files lie in a storage of their own."""
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from mmdet.registry import DATASETS, METRICS
from mmengine.fileio.backends import BaseStorageBackend, backends

from qbheat_mm.cli.coco_report import coco_report

from .conftest import CLASSES

BUCKET = 'bucket:data'


@pytest.fixture
def stored(coco_root, monkeypatch):
    """The tiny data set as the content of a bucket; settings to read it."""
    class Bucket(BaseStorageBackend):

        def get(self, filepath):
            assert str(filepath).startswith(BUCKET)
            return (coco_root / Path(filepath).name).read_bytes()

        def get_text(self, filepath, encoding='utf-8'):
            return self.get(filepath).decode(encoding)

        @contextmanager
        def get_local_path(self, filepath):
            with tempfile.NamedTemporaryFile() as file:
                file.write(self.get(filepath))
                file.flush()
                yield file.name

    monkeypatch.setitem(backends, 'bucket', Bucket)
    return dict(backend='bucket')


def test_annotations_and_pictures_are_read_from_it(stored, coco_root):
    settings = dict(
        type='MatchedCocoDataset', ann_file=f'{BUCKET}/ann.json',
        data_prefix=dict(img=BUCKET), backend_args=stored,
        metainfo=dict(classes=CLASSES), pipeline=[
            dict(type='LoadNamedImageFromFile', backend_args=stored),
            dict(type='LoadAnnotations', with_bbox=True)])
    dataset = DATASETS.build(settings)
    local = DATASETS.build(dict(
        settings, ann_file=str(coco_root / 'ann.json'), backend_args=None,
        data_prefix=dict(img=str(coco_root)), pipeline=[
            dict(type='LoadNamedImageFromFile'), settings['pipeline'][1]]))
    assert len(dataset) == len(local) == 4
    for here, there in zip(dataset, local):
        assert np.array_equal(here['img'], there['img'])
        assert np.array_equal(here['gt_bboxes'].tensor,
                              there['gt_bboxes'].tensor)
    METRICS.build(dict(type='MatchedCocoMetric', backend_args=stored,
                       ann_file=f'{BUCKET}/ann.json'))
    found = coco_report(settings)
    assert found.report.per_class == dict.fromkeys(CLASSES, 1)
