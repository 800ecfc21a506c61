# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Exports that the tools' own converters wrote (see make.py there)."""
import json
from pathlib import Path

import pytest

from qbheat_mm.apis import prepare_boxes

from .oracle.read_back import (
    Triple,
    assert_equal_boxes,
    fingerprint,
    read_boxes,
)

DATA = Path(__file__).parents[1] / 'data/exports/from_tools'
TRUTH = json.loads((DATA / 'truth.json').read_text())
#: No XML file is written for an image without boxes.
NO_NEGATIVES = ['label-studio-sdk-2.1.2-voc', 'datumaro-1.13.12-voc_detection']


def original(name):
    """The name of an image that was given to the tool."""
    for known in sorted(TRUTH, key=len, reverse=True):
        if name.endswith(known):
            return known
    raise ValueError(name)


@pytest.mark.parametrize('name', [
    path.name for path in sorted(DATA.iterdir()) if path.is_dir()])
def test_export_of_the_tool_itself(name, tmp_path):
    report = prepare_boxes(str(DATA / name), str(tmp_path / 'out'))
    triples, images = [], set()
    for path in (DATA / name).rglob('*.jpg'):
        image = fingerprint(path)
        objects = TRUTH[original(path.name)]
        if objects or name not in NO_NEGATIVES:
            images.add(('', image))
        for label, *box in objects:
            triples.append(Triple('', image, label, tuple(box)))
    assert_equal_boxes((triples, images), read_boxes(tmp_path / 'out'), False,
                       0.02)
    for what in ('images', 'boxes'):
        assert report.account.skipped(what) == 0
