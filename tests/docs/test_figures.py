# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The figures of the README."""
import importlib
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from PIL import Image

from .reading import ROOT

SVG = '{http://www.w3.org/2000/svg}'


@pytest.fixture
def call(monkeypatch):
    """Run a tool of tools/docs in this process."""
    monkeypatch.syspath_prepend(str(ROOT / 'tools/docs'))

    def call_tool(name, *arguments):
        monkeypatch.setattr(sys, 'argv', [name, *map(str, arguments)])
        module = importlib.import_module(name)
        monkeypatch.delitem(sys.modules, name)
        module.main()

    return call_tool


def test_the_figure_of_the_method_is_what_its_tool_draws(call, tmp_path):
    call('method_figure', '--out', tmp_path / 'method.svg')
    drawn, kept = (ElementTree.parse(file).getroot() for file in (
        tmp_path / 'method.svg', ROOT / 'docs/figures/method.svg'))
    # Colours of the picture may differ by the version of OpenCV.
    for kind in ('text', 'rect', 'style', 'marker'):
        assert [(part.attrib, part.text) for part in drawn.iter(SVG + kind)
                ] == [(part.attrib, part.text)
                      for part in kept.iter(SVG + kind)], kind
    words = [part.text for part in kept.iter(SVG + 'text')]
    assert [word for word in words if word in (
        'crop', 'encode', 'predict', 'decode', 'compare')] == [
        'crop', 'encode', 'predict', 'decode', 'compare']
    assert 'prefers-color-scheme: dark' in kept.find(SVG + 'style').text
    assert 'docs/figures/method.svg' in (ROOT / 'README.md').read_text()


def test_the_readmes_picture_is_the_demos(call, tmp_path):
    (tmp_path / 'pictures').mkdir()
    pixels = np.zeros((40, 100, 3), np.uint8)
    pixels[:, 50:] = 90
    Image.fromarray(pixels).save(tmp_path / 'pictures/detections.png')
    out = tmp_path / 'figure.png'
    call('results_figure', tmp_path, '--out', out)
    sheet = np.asarray(Image.open(out).convert('L'))
    assert sheet.shape == (640, 1600)
    assert (sheet[:, 0].max(), sheet[:, -1].min()) == (0, 90)


def test_a_folder_without_a_demo_is_refused(call, tmp_path):
    from qbheat_mm.errors import UserError
    with pytest.raises(UserError, match='make demo'):
        call('results_figure', tmp_path)
