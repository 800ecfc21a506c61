# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Rows of finished runs survive, and are never run twice."""
import json
from dataclasses import replace

import pytest

from projects.drawn_world.study import Arm, Probe, Results, Study
from projects.drawn_world.study.design import ENCODER, Run
from projects.drawn_world.study.files import load_study
from projects.drawn_world.study.place import (
    Place,
    alone_in,
    checkpoint,
    mark_ended,
)
from projects.drawn_world.study.running import (
    STEADY,
    check_settings,
    command,
    epochs,
    estimate,
    measured,
    pending,
    run_study,
    steady_seconds,
)
from qbheat_mm.cli.command_line import quoted
from qbheat_mm.errors import UserError

STUDY = Study(
    (Arm('base', 'base', 'base.py', seeds=2),
     Arm('random', 'random', None, seeds=2),
     Arm('timed', 'timed', 'base.py', seeds=1, time_of=('base', 'slow')),
     Arm('slow', 'slow', 'slow.py', seeds=1, probes=(), start='base')),
    (Probe('lin', 'lin.py', {'top-1': ('accuracy/top1', 1)}), ))


def row(seconds=10., **metrics):
    return dict(metrics=metrics, seconds=seconds)


def test_rows_are_read_back(tmp_path):
    path = tmp_path / 'rows.jsonl'
    results = Results(path, 'cpu')
    for seed in (0, 1):
        results.add(Run('base', seed, 'lin'), row(5. + seed, **{'top-1': 3.}))
    again = Results(path, 'cpu')
    assert again.rows == results.rows
    assert Run('base', 1, 'lin') in again
    assert again.values('base', 'lin', 'top-1') == {0: 3., 1: 3.}
    assert again.mean_seconds() == {('base', 'lin'): 5.5}
    # another machine has run nothing yet
    assert not Results(path, 'gpu').rows


def test_a_row_whose_line_an_editor_did_not_end_is_kept(tmp_path):
    path = tmp_path / 'rows.jsonl'
    Results(path, 'cpu').add(Run('base', 0, 'lin'), row())
    path.write_text(path.read_text().rstrip())
    Results(path, 'cpu').add(Run('base', 1, 'lin'), row())
    assert [run.seed for run in Results(path, 'cpu').rows] == [0, 1]


def test_a_cut_last_line_costs_that_row_alone(tmp_path):
    path = tmp_path / 'rows.jsonl'
    Results(path, 'cpu').add(Run('base', 0, 'lin'), row())
    whole = path.read_text()
    path.write_text(whole + whole[:20])
    results = Results(path, 'cpu')
    results.add(Run('base', 1, 'lin'), row())
    assert [json.loads(line)['seed']
            for line in path.read_text().splitlines()] == [0, 1]
    assert Results(path, 'cpu').rows == results.rows


def test_a_line_that_is_no_row_is_told(tmp_path):
    path = tmp_path / 'rows.jsonl'
    results = Results(path, 'cpu')
    for seed in (0, 1):
        results.add(Run('base', seed, 'lin'), row())
    good = path.read_text()
    for old, new in (('"stage"', '"stge"'), ('"seed": 0', '"seed": "0"'),
                     ('"metrics": {}', '"metrics": null'),
                     ('"metrics": {}', '"metrics": {"top-1": null}'),
                     ('"metrics": {}', '"metrics": {"top-1": NaN}'),
                     ('"seconds": 10.0', '"seconds": "10"')):
        assert old in good
        path.write_text(good.replace(old, new, 1))
        with pytest.raises(UserError, match='line 1'):
            Results(path, 'cpu')


def test_two_rows_of_one_run_are_told(tmp_path):
    """As of the files of two machines of one kind that were joined."""
    path = tmp_path / 'rows.jsonl'
    Results(path, 'cpu').add(Run('base', 0, 'lin'), row())
    path.write_text(2 * path.read_text())
    with pytest.raises(UserError, match=r"two rows of base/0/lin on 'cpu'"):
        Results(path, 'cpu')
    assert not Results(path, 'gpu').rows


def test_a_file_of_rows_grows_by_one_study_at_a_time(tmp_path):
    """Two of them, in work folders of their own, would run all twice."""
    path = tmp_path / 'new/rows.jsonl'
    first, second = Results(path, 'cpu'), Results(path, 'cpu')
    with second.alone():
        second.add(Run('base', 0, 'lin'), row())
        with pytest.raises(UserError, match='another study adds to'):
            run_study(STUDY, first, Place(tmp_path, tmp_path / 'work'), [])
    with first.alone():
        assert Run('base', 0, 'lin') in Results(path, 'cpu')


def row_of(study, run, *options):
    """A row as a study writes it."""
    return row() | dict(settings=study.settings(run),
                        cfg_options=list(options))


@pytest.mark.parametrize('run', [Run('base', 0, ENCODER),
                                 Run('base', 0, 'lin'),
                                 Run('slow', 0, ENCODER)], ids=str)
def test_rows_of_other_settings_are_not_mixed_with(tmp_path, run):
    """Those of the encoder before a run count, too."""
    Results(tmp_path / 'rows.jsonl', 'cpu').add(run, row_of(STUDY, run))
    results = Results(tmp_path / 'rows.jsonl', 'cpu')
    check_settings(STUDY, results, [])
    check_settings(STUDY, results)
    base, *others = STUDY.arms
    changed = Study((replace(base, options=('a.b=1', )), *others),
                    STUDY.probes)
    with pytest.raises(UserError, match=f'{run} was measured with nothing of '
                       'the kind, and would now be with a.b=1'):
        check_settings(changed, results)
    with pytest.raises(UserError, match='would now be with c=2'):
        check_settings(STUDY, results, ['c=2'])


@pytest.mark.parametrize('change', [dict(options=('a=1', )),
                                    dict(config='other.py'),
                                    dict(tool='look.py')])
def test_a_probe_that_was_changed_has_other_rows(tmp_path, change):
    study = Study(STUDY.arms[:1], STUDY.probes)
    results, run = Results(tmp_path / 'rows.jsonl', 'cpu'), Run(
        'base', 1, 'lin')
    results.add(run, row_of(study, run))
    changed = Study(study.arms, (replace(STUDY.probes[0], **change), ))
    with pytest.raises(UserError, match='would now be with'):
        check_settings(changed, results)


def test_rows_of_a_trial_are_not_reported_with_others(tmp_path):
    results = Results(tmp_path / 'rows.jsonl', 'cpu')
    runs = [Run('base', seed, ENCODER) for seed in (0, 1)]
    results.add(runs[0], row_of(STUDY, runs[0], 'c=2'))
    check_settings(STUDY, results)
    results.add(runs[1], row_of(STUDY, runs[1]))
    with pytest.raises(UserError, match='base/1/encoder was measured with '
                       'nothing of the kind, and would now be with c=2'):
        check_settings(STUDY, results)


def test_rows_that_tell_no_settings_pass(tmp_path):
    results = Results(tmp_path / 'rows.jsonl', 'cpu')
    results.add(Run('base', 0, ENCODER), row())
    check_settings(STUDY, results, ['c=2'])


@pytest.mark.parametrize('value', ['NaN', 'Infinity'])
def test_a_figure_that_is_no_number_makes_no_row(tmp_path, value):
    study = Study(STUDY.arms[:1], (
        Probe('look', 'lin.py', {'rank': ('rank', 1)}, tool='look.py'), ))
    (tmp_path / 'metrics.json').write_text(f'{{"rank": {value}}}')
    with pytest.raises(UserError, match='rank is (nan|inf)'):
        measured(study, tmp_path, Run('base', 0, 'look'))


def test_the_folder_of_the_rows_need_not_be_there(tmp_path):
    path = tmp_path / 'new/deep/rows.jsonl'
    Results(path, 'cpu').add(Run('base', 0, 'lin'), row())
    assert list(Results(path, 'cpu').rows) == [Run('base', 0, 'lin')]


def test_pending_runs_come_after_what_they_need(tmp_path):
    results = Results(tmp_path / 'rows.jsonl', 'cpu')
    order = pending(STUDY, results, Place(tmp_path, tmp_path))
    assert len(order) == len(set(order)) == len(list(STUDY.runs()))
    for run in order:
        assert all(order.index(n) < order.index(run)
                   for n in STUDY.needs(run))
    # the most important first, where needs allow it
    assert order[:2] == [Run('base', 0, ENCODER), Run('base', 0, 'lin')]


def test_what_has_a_row_is_not_run_again(tmp_path):
    results = Results(tmp_path / 'rows.jsonl', 'cpu')
    place = Place(tmp_path, tmp_path)
    results.add(Run('base', 0, ENCODER), row())
    results.add(Run('base', 0, 'lin'), row())
    results.add(Run('slow', 0, ENCODER), row(40.))
    left = pending(STUDY, results, place, lambda run: run.arm == 'base')
    assert left == [Run('base', 1, ENCODER), Run('base', 1, 'lin')]
    # a probe that is left needs the weights, wherever its row was made
    results.rows.pop(Run('base', 0, 'lin'))
    left = pending(STUDY, results, place, lambda run: run.seed == 0 and
                   run.arm == 'base')
    assert left == [Run('base', 0, ENCODER), Run('base', 0, 'lin')]
    leave_checkpoint(STUDY, place, Run('base', 0, ENCODER))
    assert pending(STUDY, results, place, lambda run: run.seed == 0 and
                   run.arm == 'base') == [Run('base', 0, 'lin')]
    # rows tell the time that another arm may take
    assert pending(STUDY, results, place, lambda run: run.arm == 'timed') == [
        Run('timed', 0, ENCODER), Run('timed', 0, 'lin')]


def test_probes_may_begin_with_the_encoder_of_another_arm(tmp_path):
    """A detector that trains all of it leaves no encoder to be probed."""
    study = Study(
        (*STUDY.arms, Arm('whole', 'whole', None, start='base', seeds=2,
                          encoder=('model.backbone.frozen_stages=-1', ))),
        STUDY.probes)
    run = Run('whole', 1, 'lin')
    results = Results(tmp_path / 'rows.jsonl', 'cpu')
    place = Place(tmp_path, tmp_path)
    assert Run('whole', 1, ENCODER) not in set(study.runs())
    assert pending(study, results, place, lambda r: r == run) == [
        Run('base', 1, ENCODER), run]
    with pytest.raises(UserError, match='no checkpoint of base/1/encoder'):
        command(study, results, place, run)
    file = leave_checkpoint(study, place, Run('base', 1, ENCODER))
    words = command(study, results, place, run)
    assert words[-2:] == ['model.backbone.frozen_stages=-1',
                          'model.backbone.init_cfg.checkpoint='
                          f'{quoted(str(file))}']
    assert command(study, results, place, Run('random', 1, 'lin'))[-1] == (
        'model.backbone.init_cfg=None')


def leave_checkpoint(study, place, run, ended=True):
    folder = place.folder(run)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / 'epoch_1.pth'
    file.touch()
    (folder / 'last_checkpoint').write_text(str(file))
    if ended:
        mark_ended(study, place, run)
    return file


def test_an_encoder_that_did_not_train_to_its_end_is_made_again(tmp_path):
    """It has a checkpoint from the first that it writes."""
    results = Results(tmp_path / 'rows.jsonl', 'cpu')
    place, encoder = Place(tmp_path, tmp_path), Run('base', 0, ENCODER)
    results.add(encoder, row())
    leave_checkpoint(STUDY, place, encoder, ended=False)

    def left():
        return pending(STUDY, results, place,
                       lambda run: run == Run('base', 0, 'lin'))

    assert left() == [encoder, Run('base', 0, 'lin')]
    leave_checkpoint(STUDY, place, encoder)
    assert left() == [Run('base', 0, 'lin')]


def test_an_encoder_of_other_settings_is_made_again(tmp_path):
    """As one that was made of few images, to see that all runs."""
    other = Place(tmp_path, tmp_path, ['train_cfg.max_epochs=1'])
    place = Place(tmp_path, tmp_path)
    first, second = Run('base', 0, ENCODER), Run('slow', 0, ENCODER)
    leave_checkpoint(STUDY, other, first)
    assert checkpoint(STUDY, other, first)
    assert not checkpoint(STUDY, place, first)
    # of a machine of another kind it is another one
    assert not checkpoint(STUDY, replace(other, machine='GPU'), first)
    # what it begins with counts, too
    leave_checkpoint(STUDY, place, second)
    assert checkpoint(STUDY, place, second)
    changed = Study((Arm('base', 'base', 'base.py', ('a.b=1', )),
                     *STUDY.arms[1:]), STUDY.probes)
    assert not checkpoint(changed, place, second)


def test_what_tells_the_time_may_also_give_the_weights(tmp_path):
    study = Study((Arm('a', '', 'a.py', probes=(), seeds=1),
                   Arm('b', '', 'b.py', probes=(), seeds=1),
                   Arm('c', '', 'c.py', start='a', time_of=('a', 'b'),
                       probes=(), seeds=1)), STUDY.probes)
    results = Results(tmp_path / 'rows.jsonl', 'cpu')
    for name in 'ab':
        results.add(Run(name, 0, ENCODER), row())
    # a row tells the time, the weights have to be there
    assert pending(study, results, Place(tmp_path, tmp_path)) == [
        Run('a', 0, ENCODER), Run('c', 0, ENCODER)]


def test_a_folder_is_of_one_study_at_a_time(tmp_path):
    with (alone_in(tmp_path / 'work'),
          pytest.raises(UserError, match='in use by another study'),
          alone_in(tmp_path / 'work')):
        pass
    with alone_in(tmp_path / 'work'):
        pass


def test_runs_are_spread_over_the_devices_that_were_named(tmp_path,
                                                          monkeypatch):
    asked = []

    class Runner:

        def __init__(self, *args, devices, **kwargs):
            asked.append(devices)

        def run(self, jobs):
            asked.append([job.name for job in jobs])

    monkeypatch.setattr('projects.drawn_world.study.running.JobRunner', Runner)
    monkeypatch.delenv('CUDA_VISIBLE_DEVICES', raising=False)
    run_study(STUDY, Results(tmp_path / 'rows.jsonl', 'this'),
              Place(tmp_path, tmp_path / 'work'), [Run('base', 1, ENCODER)],
              devices=['cuda:1', 'cpu'])
    assert asked == [['1', '-1'], ['base/1/encoder']]


def test_equal_time_is_counted_in_epochs(tmp_path):
    (tmp_path / 'configs').mkdir()
    (tmp_path / 'configs' / 'base.py').write_text(
        'train_cfg = dict(max_epochs=12)')
    results = Results(tmp_path / 'rows.jsonl', 'cpu')
    results.add(Run('base', 0, ENCODER), row(30.))
    results.add(Run('slow', 0, ENCODER), row(100.))
    assert epochs(STUDY, results, Place(tmp_path, tmp_path), 'timed') == 40
    # how long the steps took counts more than how long the whole run did
    results.add(Run('base', 0, ENCODER), row(90., **{STEADY: 20.}))
    assert epochs(STUDY, results, Place(tmp_path, tmp_path), 'timed') == 60


def test_a_few_slow_steps_do_not_count(tmp_path):
    log = tmp_path / '1/vis_data/scalars.json'
    log.parent.mkdir(parents=True)
    log.write_text('\n'.join(json.dumps(line) for line in (
        *(dict(loss=1., time=t, step=10 * i)
          for i, t in enumerate((5., .2, .2, .3, .1), 1)),
        {'accuracy/top1': 50., 'time': 9., 'step': 50})))
    assert steady_seconds(tmp_path) == 10.


def test_estimate_from_measured_times(tmp_path):
    results = Results(tmp_path / 'rows.jsonl', 'cpu')
    runs = list(STUDY.runs())
    assert estimate(STUDY, results, runs, 2) == (0., len(runs))
    results.add(Run('base', 0, ENCODER), row(100.))
    results.add(Run('base', 0, 'lin'), row(10.))
    results.add(Run('random', 0, 'lin'), row(20.))
    seconds, unknown = estimate(
        STUDY, results, [Run('base', 1, ENCODER), Run('base', 1, 'lin'),
                         Run('timed', 0, 'lin')], 2)
    assert seconds == (100 + 10 + 15) / 2 and unknown == 0


@pytest.mark.parametrize('arms, named', [
    ((Arm('a', '', None), Arm('a', '', None)), "two arms are named 'a'"),
    ((Arm('a', '', 'x.py', start='b'), ), "the arm 'b'"),
    ((Arm('a', '', None, probes=('knn', )), ), "the probe 'knn'"),
    ((Arm('a', '', None, probes=()), Arm('b', '', 'x.py', start='a')),
     "'b' refers to the arm 'a', which trains no encoder"),
    ((Arm('a', '', 'x.py', start='b'), Arm('b', '', 'x.py', start='a')),
     'wait for each other'),
])
def test_a_study_that_cannot_be(arms, named):
    with pytest.raises(UserError, match=named):
        Study(arms, STUDY.probes)


@pytest.mark.parametrize('text, named', [
    ('STUDY = (', r"study\.py', line 1: .*mend it"),
    ('', 'sets no STUDY'),
    ("Question('q', '', 'base', ('bse', ), (('lin', 'top-1'), ))",
     "the arm 'bse'"),
    ("Question('q', '', 'base', (), (('lin', 'top1'), ))",
     r"\('lin', 'top1'\), which nothing measures"),
    ("Question('q', '', 'base', (), (('encoder', 'top-1'), ))",
     'which nothing measures'),
    ("Question('q', '', 'base', (), (('lin', 'top-1'), ), (('lin', 'AP'), ))",
     'which it does not show'),
])
def test_a_file_that_declares_no_study(tmp_path, text, named):
    file = tmp_path / 'study.py'
    if text.startswith('Question'):
        text = f"""from projects.drawn_world.study import Arm, Probe, Study
from projects.drawn_world.study.tables import Question
STUDY = Study((Arm('base', '', 'base.py'), ), (Probe('lin', 'lin.py', {{
    'top-1': ('accuracy/top1', 1), 'AP': ('coco/bbox_mAP', 100)}}), ))
QUESTIONS = ({text}, )"""
    file.write_text(text)
    with pytest.raises(UserError, match=named):
        load_study(file)
