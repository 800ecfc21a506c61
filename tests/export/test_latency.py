# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The measurement of exported detectors: what it computes and prints."""
import re
from pathlib import Path

import pytest

from ..conftest import run_tool

pytest.importorskip('mmdet')
TOOLS = Path(__file__).parents[2] / 'tools/benchmark'


def test_every_way_computes_the_same(monkeypatch, capsys):
    for package in ('onnx', 'onnxruntime', 'onnxscript'):
        pytest.importorskip(package)
    monkeypatch.syspath_prepend(str(TOOLS))
    import detector_latency
    real = detector_latency.get_config

    def small(name):
        cfg = real(name)
        cfg.model.backbone.update(depth=18, base_channels=8)
        cfg.model.neck.in_channels = [64]
        cfg.model.encoder.num_layers = cfg.model.decoder.num_layers = 1
        return cfg

    monkeypatch.setattr(detector_latency, 'get_config', small)
    run_tool('benchmark/export_latency.py', '--size', 64, 96, '--repeats', 1,
             '--names', 'DETR-R50', '--ways', 'eager', 'onnxruntime')
    title, ways, row = capsys.readouterr().out.splitlines()[-3:]
    assert ways.split() == ['eager', 'onnxruntime']
    assert re.findall(r'\((.+?)\)', row) == ['1.00', '1.00']
