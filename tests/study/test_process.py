# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The study as a process: killed, gone on with, and reported."""
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from projects.drawn_world.study import compare
from projects.drawn_world.study.machine import default_devices, machine

ROOT = Path(__file__).parents[2]
#: A handful of images and steps.
FEW = [
    'train_dataloader.dataset.sizes=tiny', 'train_dataloader.batch_size=8',
    'val_dataloader.dataset.sizes=tiny', 'train_cfg.max_epochs=1',
]


def start(folder, *arguments):
    return subprocess.Popen(
        [sys.executable, str(ROOT / 'tools/study/run.py'), '--study',
         str(Path(__file__).parent / 'two_arms.py'), '--results',
         str(folder / 'rows.jsonl'), '--work-dir', str(folder / 'work'),
         *arguments],
        env=dict(os.environ, QBHEAT_CACHE=str(folder / 'cache'),
                 OMP_NUM_THREADS='1'),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True)


def rows(folder):
    path = folder / 'rows.jsonl'
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def known_rows(folder):
    """Rows of two of the three seeds, as if they had been measured."""
    lines = [dict(arm=arm, seed=seed, stage=stage, seconds=1.,
                  machine=machine(default_devices()), metrics=metrics)
             for arm, gain in (('base', 0), ('other', 2)) for seed in (1, 2)
             for stage, metrics in (
                 ('encoder', {}), ('lin', {'top-1': 20. + gain * seed}),
                 ('features', {'k-NN': 30. - seed}),
                 ('matrices', {'rank': 1.}))
             if arm == 'base' or stage in ('encoder', 'lin')]
    (folder / 'rows.jsonl').write_text(
        ''.join(json.dumps(line) + '\n' for line in lines))
    return lines


def test_the_plan_tells_what_is_there_whatever_is_asked_for(tmp_path):
    known_rows(tmp_path)
    said, _ = start(tmp_path, '--plan', '--seeds', '0', '--only',
                    'base').communicate()
    plan = {line.split()[0]: ' '.join(line.split()[1:10])
            for line in said.splitlines()}
    # of base, seeds 1 and 2; of other, which has one probe alone
    assert plan['base'].startswith('8 of 12 runs done, 4 to run')
    assert plan['other'].startswith('4 of 6 runs done, 0 to run')


def test_a_killed_study_goes_on(tmp_path):
    known = known_rows(tmp_path)
    process = start(tmp_path, '--cfg-options', *FEW)
    try:
        while len(rows(tmp_path)) == len(known):
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.1)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    kept = rows(tmp_path)
    assert kept[:len(known)] == known and len(kept) < len(known) + 5

    process = start(tmp_path, '--cfg-options', *FEW)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    assert '\n0 runs of the study left' in said
    # few images are not to be mixed with many
    said, _ = start(tmp_path, '--plan').communicate()
    assert 'measured with train_dataloader.dataset.sizes=tiny' in said
    found = rows(tmp_path)
    assert found[:len(kept)] == kept, 'rows are only added'
    names = [(row['arm'], row['seed'], row['stage']) for row in found]
    assert len(names) == len(set(names)) == 18
    for row in kept[len(known):]:  # what has ended is not run again
        assert f"{row['arm']}/{row['seed']}/{row['stage']} $" not in ' '.join(
            said.split())
    _check_row(found[-1])
    _check_report(tmp_path, found)


def _check_row(row):
    assert set(row) == {'arm', 'seed', 'stage', 'metrics', 'seconds',
                        'command', 'commit', 'machine', 'date',
                        'environment', 'settings', 'cfg_options'}
    assert row['cfg_options'] == FEW and row['settings']
    assert row['command'].startswith('python tools/')
    assert str(ROOT) not in json.dumps(row)


def _check_report(folder, found):
    """The mean of three seeds, two of which differ by 2 and by 4."""
    subprocess.run(
        [sys.executable, str(ROOT / 'tools/study/report.py'), '--study',
         str(Path(__file__).parent / 'two_arms.py'), '--results',
         str(folder / 'rows.jsonl'), '--out', str(folder), '--html',
         str(folder / 'page.html')], check=True)
    top1 = {row['arm']: row['metrics']['top-1'] for row in found
            if (row['seed'], row['stage']) == (0, 'lin')}
    differences = [top1['other'] - top1['base'], 2., 4.]
    # of 8 flips of signs, those as far from 0 as what was found
    total = abs(sum(differences))
    flips = [abs(a * differences[0] + b * 2 + c * 4)
             for a in (1, -1) for b in (1, -1) for c in (1, -1)]
    p = sum(flip >= total - 1e-9 for flip in flips) / 8
    found = compare({0: top1['other'], 1: 22., 2: 24.},
                    {0: top1['base'], 1: 20., 2: 20.})
    assert found.differences == pytest.approx(differences)
    assert found.p == pytest.approx(p)
    page = (folder / 'evidence.md').read_text()
    mean = sum(differences) / 3
    assert f'lin, top-1 {mean:+.1f} (3 seeds, ' in page
    assert '![Does it help?](evidence/helps.svg)' in page
    assert (folder / 'evidence' / 'helps.svg').exists()
    html = (folder / 'page.html').read_text()
    assert 'Does it help?' in html and 'data:image/png' in html
