"""The whole demo on a handful of images, as a user would start it."""
import json
import re
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest

from projects.drawn_world import demo
from qbheat_mm.cli.arguments import add_cfg_options

from ..helpers.tools import ROOT


def test_a_place_with_a_comma_is_one_value():
    out = Path('/a,b/work dirs')
    job = demo.probe_job('pretrained', 'linear', Namespace(
        out=out, seed=0, fast=True))
    parser = ArgumentParser()
    add_cfg_options(parser)
    options = parser.parse_known_args(job.command)[0].cfg_options
    assert options['encoder'] == str(
        out / 'pretrained/encoder/encoder.safetensors')


@pytest.mark.mmdet
def test_the_demo_runs_from_end_to_end(tmp_path, monkeypatch, capsys,
                                       in_process):
    out = tmp_path / 'out'
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('QBHEAT_CACHE', str(tmp_path / 'cache'))
    in_process([sys.executable, ROOT / 'projects/drawn_world/demo.py',
                '--fast', '--seed', '1', '--out', out])
    printed = capsys.readouterr().out
    # Pre-training, probes and detectors start with few lines.
    runs = printed.split('settings and full log: ')
    starts = [run.split('(train)')[0] for run in runs if '(train)' in run]
    assert len(starts) == 7
    for start in starts:
        assert start.count('\n') < 20, start
    lines = re.findall(r'\(train\).*', printed)
    assert all(re.search('eta: .* loss: .* images_per_second: ', line)
               for line in lines)

    results = json.loads((out / 'pictures/demo.json').read_text())
    assert results['numbers']['seed'] == 1
    metrics = results['numbers']['metrics']
    assert list(metrics)[:2] == ['lin, top-1 (%)', 'tran-1, top-1 (%)']
    for title, row in metrics.items():
        assert 0 <= row['random'] <= 100 and 0 <= row['pretrained'] <= 100
        assert re.search(rf"{re.escape(title)} +{row['random']:.1f} +"
                         rf"{row['pretrained']:.1f} ", printed)
    for name in ('loss_curves.png', 'detections.png'):
        picture = (out / 'pictures' / name).read_bytes()
        assert picture.startswith(b'\x89PNG') and len(picture) > 5000
    # The whole story is on one page, which needs no other file.
    page = (out / 'index.html').read_text()
    titles = re.findall('<h2 id=.*?>(.*?)</h2>', page)
    assert titles[0] == demo.TITLE and len(titles) == 6
    assert str(tmp_path) not in page
    assert 'detections.png' in page and 'loss_curves.png' in page
    # Every command that was run is one that a user can type.
    commands = [line for line in printed.splitlines() if line.startswith('$ ')]
    assert sum('tools/train.py' in line for line in commands) == 7
    assert sum('tools/test.py' in line for line in commands) == 1
