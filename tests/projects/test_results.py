"""The table of the demo."""
import json

import pytest

from projects.drawn_world.results import (
    ROWS,
    collect,
    compare_seeds,
    read_metric,
    to_markdown,
    to_table,
)
from qbheat_mm.errors import UserError


def write_log(work_dir, *lines, time='20260101_000000'):
    folder = work_dir / time / 'vis_data'
    folder.mkdir(parents=True)
    (folder / 'scalars.json').write_text(
        ''.join(json.dumps(line) + '\n' for line in lines))


def test_the_last_value_of_the_newest_run_counts(tmp_path):
    write_log(tmp_path, {'loss': 1., 'step': 1}, {'accuracy/top1': 10.},
              {'accuracy/top1': 20.})
    assert read_metric(tmp_path, 'accuracy/top1') == 20
    write_log(tmp_path, {'accuracy/top1': 30.}, time='20260101_000001')
    assert read_metric(tmp_path, 'accuracy/top1') == 30


def test_what_was_not_evaluated_is_an_error(tmp_path):
    with pytest.raises(UserError, match='holds no log'):
        read_metric(tmp_path, 'accuracy/top1')
    write_log(tmp_path, {'loss': 1., 'step': 1})
    with pytest.raises(UserError, match="no 'accuracy/top1'"):
        read_metric(tmp_path, 'accuracy/top1')
    with pytest.raises(UserError, match="no 'coco/bbox_mAP'"):
        read_metric(tmp_path, 'coco/bbox_mAP')


def test_the_table(tmp_path):
    for encoder, value in (('random', .25), ('pretrained', .5)):
        for run in {row[1] for row in ROWS}:
            write_log(
                tmp_path / encoder / run, {
                    metric: value * 100 / factor
                    for _, name, metric, factor in ROWS if name == run
                })
    rows = collect(tmp_path, ('random', 'pretrained'))
    assert [row['title'] for row in rows] == [row[0] for row in ROWS]
    for row in rows:
        assert row['random'] == 25 and row['pretrained'] == 50
        assert row['gain'] == 25
    lines = to_markdown(to_table(rows)).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert '+25.0' in lines[-1]


@pytest.mark.parametrize('more, rows', [(dict(calibrated=2.), 1), ({}, 2)])
def test_runs_of_other_encoders_are_not_compared(more, rows):
    row = dict(title='lin', random=10., pretrained=13., gain=3.)
    results = [dict(seed=0, rows=[row]),
               dict(seed=1, rows=[dict(row, **more)] * rows)]
    for pair in (results, results[::-1]):
        with pytest.raises(UserError, match='--calibrated for all or none'):
            compare_seeds(pair)


def test_seeds_are_compared_value_by_value():
    results = [
        dict(seed=seed, rows=[
            dict(title='lin', random=10., pretrained=10. + gain, gain=gain)])
        for seed, gain in ((0, 3.), (1, 5.), (7, 10.))
    ]
    table = compare_seeds(results)
    assert table.title == 'Seeds 0, 1, 7'
    assert table.rows == [[
        'lin', '10.0 / 10.0 / 10.0', '13.0 / 15.0 / 20.0', '+6.0']]
