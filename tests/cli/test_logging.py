# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Training curves in TensorBoard."""
import re
import shlex
from argparse import ArgumentParser

import pytest
from mmengine.registry import VISUALIZERS, DefaultScope

from qbheat_mm.cli.arguments import add_cfg_options
from qbheat_mm.config.reading import read_config

from ..helpers.tools import ROOT


@pytest.mark.mmdet
def test_the_command_of_the_docs(tmp_path):
    pytest.importorskip('tensorboard')
    page = (ROOT / 'docs' / 'analysis.md').read_text(encoding='utf-8')
    command = re.search(r'--cfg-options \\\n +(visualizer\.vis_.*)', page)[1]
    parser = ArgumentParser()
    add_cfg_options(parser)
    options = parser.parse_args(
        ['--cfg-options', *shlex.split(command)]).cfg_options
    cfg = read_config(
        str(ROOT / 'configs/qbheat/coco/retinanet_mf-285m_own-data.py'),
        options)
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        visualizer = VISUALIZERS.build(
            dict(cfg.visualizer, name=str(tmp_path), save_dir=str(tmp_path)))
    visualizer.add_scalar('loss', 1., 1)
    visualizer.close()
    assert list(tmp_path.rglob('events.out.tfevents.*'))
    assert list(tmp_path.rglob('scalars.json'))
