# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The picture of the demo in the README."""
import runpy
import sys

import numpy as np
from PIL import Image

from .reading import ROOT


def test_the_readme_shows_what_the_demo_drew(tmp_path, monkeypatch):
    (tmp_path / 'pictures').mkdir()
    pixels = np.zeros((40, 100, 3), np.uint8)
    pixels[:, 50:] = 90
    Image.fromarray(pixels).save(tmp_path / 'pictures/detections.png')
    out = tmp_path / 'figure.png'
    monkeypatch.setattr(sys, 'argv', [
        'results_figure', str(tmp_path), '--out', str(out)])
    runpy.run_path(str(ROOT / 'tools/docs/results_figure.py'),
                   run_name='__main__')
    sheet = np.asarray(Image.open(out).convert('L'))
    assert sheet.shape == (640, 1600)
    assert (sheet[:, 0].max(), sheet[:, -1].min()) == (0, 90)
