# Copyright (c) QB-Heat MM authors. All rights reserved.
"""mmdet's own tools run with our configs, from an empty folder."""
import json
from pathlib import Path

import matplotlib
import mmcv
import pytest

from ..helpers.tools import ROOT, run_tool

mmdet = pytest.importorskip('mmdet')
TOOLS = Path(mmdet.__file__).parent / '.mim/tools'
CONFIG = ROOT / 'projects/drawn_world/configs/mf-dec_mf-demo_frozen.py'
OPTIONS = ('--cfg-options', 'model.backbone.init_cfg=None',
           *(f'{part}_dataloader.dataset.sizes=tiny'
             for part in ('train', 'val', 'test')))


@pytest.fixture(scope='module')
def use(tmp_path_factory, forget):
    """Run a tool of mmdet in an empty folder."""
    folder = tmp_path_factory.mktemp('mmdet_tools')
    matplotlib.use('agg')

    def use(name, *args):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            forget()  # as in a new process
            run_tool(TOOLS / name, *args)
        return folder

    return use


def test_get_flops(use, capsys):
    use('analysis_tools/get_flops.py', CONFIG, '--num-images', 1, *OPTIONS)
    assert 'Params: 1.' in capsys.readouterr().out  # 1.5M


def test_browse_dataset(use):
    folder = use('analysis_tools/browse_dataset.py', CONFIG, '--not-show',
                 '--show-interval', 0, '--output-dir', 'browsed', *OPTIONS)
    pictures = list((folder / 'browsed').iterdir())
    assert len(pictures) == 16
    assert mmcv.imread(str(pictures[0])).shape[2] == 3


def test_mmdet_trains_what_our_tool_tests(use, detector_config):
    folder = use('train.py', detector_config, '--work-dir', 'runs')
    use(ROOT / 'tools/test.py', detector_config, 'runs/epoch_1.pth',
        '--out-metrics', 'metrics.json', '--show-dir', 'pictures')
    metrics = json.loads((folder / 'metrics.json').read_text())
    assert metrics['coco/bbox_mAP'] >= 0
    assert list((folder / 'work_dirs').rglob('pictures/*'))
