# Copyright (c) QB-Heat MM authors. All rights reserved.
"""All but detection runs without mmdet and compiled operators."""
import sys

from ..helpers.tools import ROOT, run

SCRIPT = """
import runpy, sys
# As if they were not installed.
sys.modules.update(dict.fromkeys(('mmdet', 'mmcv._ext', 'mim')))
for command in sys.argv[1:]:
    sys.argv = command.split()
    sys.argv[0] = {tools!r} + '/' + sys.argv[0]
    runpy.run_path(sys.argv[0], run_name='__main__')
    print('ran', command.split()[0])
"""


def test_pretraining_probing_testing_and_analysis(
        tmp_path, pretraining_config, classifier_config, data):
    options = '--cfg-options train_cfg.max_epochs=1'
    commands = [
        f'check_data.py {classifier_config} --deep',
        f'train.py {pretraining_config} --work-dir pre',
        f'train.py {classifier_config} --work-dir probe {options}',
        f'test.py {classifier_config} probe/epoch_1.pth',
        f'analysis/reconstruct.py {pretraining_config} pre/epoch_1.pth '
        f'{data}/images/a --out pictures',
        f'analysis/spectrum.py {pretraining_config} pre/epoch_1.pth '
        '--out spectrum', 'analysis/story.py pre',
        f'embed.py pre/epoch_1.pth {data}/images --out x.npz',
        f'knn.py pre/epoch_1.pth {data}/images']
    printed = run(sys.executable, '-c', SCRIPT.format(
        tools=str(ROOT / 'tools')), *commands, cwd=tmp_path)
    for command in commands:
        assert f'ran {command.split()[0]}' in printed
