# Copyright (c) QB-Heat MM authors. All rights reserved.
"""One page for any run, also while it trains."""
import json
import re

import mmcv
import numpy as np
import pytest

from qbheat_mm.analysis.run_log import read_curves, report_run
from qbheat_mm.report import Report, render_page


def write_log(folder, *lines, end=''):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / 'scalars.json').write_text(
        ''.join(json.dumps(line) + '\n' for line in lines) + end)


def test_a_resumed_run_continues_where_it_started_again(tmp_path):
    write_log(tmp_path / '20260101_000000/vis_data',
              *(dict(step=step, loss=10. - step, lr=.1)
                for step in (1, 2, 3, 4)))
    write_log(tmp_path / '20260102_000000/vis_data',
              *(dict(step=step, loss=1., time=2.) for step in (3, 5)))
    assert read_curves(str(tmp_path)) == dict(
        loss=[(1, 9.), (2, 8.), (3, 1.), (5, 1.)],
        lr=[(1, .1), (2, .1), (3, .1), (4, .1)])


@pytest.fixture
def work_dir(tmp_path):
    """A run that is just writing its fourth line."""
    folder = tmp_path / 'my_[run]' / '20260101_000000' / 'vis_data'
    for step in range(1, 7):
        mmcv.imwrite(np.full((8, 24, 3), 40 * step, np.uint8), str(
            folder / 'vis_image' / f'reconstruction_top_left_{step}.png'))
    write_log(folder, *(dict(step=step, epoch=1, loss=1 / step, lr=1e-3)
                        for step in (1, 2)),
              {'step': 2, 'coco/bbox_mAP': float('nan')},
              end='{"step": 3, "los')
    return tmp_path / 'my_[run]'


def test_a_run_that_trains(call, work_dir):
    call('story', work_dir)
    page = (work_dir / 'index.html').read_text()
    assert '<h1>my_[run]</h1>' in page
    assert re.findall('<h2 id=.*?>(.*?)</h2>', page) == [
        'Training curves', 'Reconstructions during training']
    # The curves, and of six pictures the last and three before.
    assert page.count('<img ') == 5
    assert 'reconstruction_top_left_6.png' in page
    assert 'refresh' not in page
    assert [p.name for p in work_dir.glob('index*')] == ['index.html']


def test_numbers_that_are_not_finite_are_valid_json(work_dir):
    report = report_run(str(work_dir))[0][0]
    rows = json.loads(report.to_json())['tables'][0]['rows']
    assert rows[-1] == ['coco/bbox_mAP', 2, None, None]


def test_pictures_of_an_earlier_run_end_where_a_later_begins(work_dir):
    later = work_dir / '20260102_000000' / 'vis_data' / 'vis_image'
    for step in (4, 5):
        mmcv.imwrite(np.zeros((8, 24, 3), np.uint8), str(
            later / f'reconstruction_top_left_{step}.png'))
    pictures = report_run(str(work_dir))[1][0].pictures
    assert [(path.split('/')[0], path[-5]) for path in pictures] == [
        ('20260101_000000', '1'), ('20260101_000000', '2'),
        ('20260101_000000', '3'), ('20260102_000000', '5')]


def test_a_page_that_is_updated(call, work_dir, monkeypatch):
    log, = work_dir.rglob('scalars.json')
    waits = []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt
        log.write_text(log.read_text() + 's": 0.125}\n')

    monkeypatch.setattr('time.sleep', wait)
    call('story', work_dir, '--every', 30)
    page = (work_dir / 'index.html').read_text()
    assert '<meta http-equiv="refresh" content="30">' in page
    assert waits == [30, 30] and '0.125' in page


def test_only_a_page_of_several_reports_lists_them():
    first, second = Report('a', 'First', ''), Report('b', 'Second', '')
    page = render_page('First', 'words', [(first, [])])
    assert '<ul>' not in page and '<h2' not in page
    page = render_page('Reports', 'words', [(first, []), (second, [])])
    assert page.count('<li>') == page.count('<h2') == 2
