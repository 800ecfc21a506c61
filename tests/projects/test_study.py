"""Rows of finished runs: written once, read, compared and reported."""
import json
import math
import re
import runpy
from pathlib import Path

import pytest
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS, DefaultScope, init_default_scope

from projects.drawn_world import jobs
from projects.drawn_world.results import (
    Row,
    Run,
    add_row,
    read_metric,
    read_rows,
    steady_seconds,
    values,
)
from projects.drawn_world.study import (
    ENCODER,
    Arm,
    Probe,
    Study,
    report,
    run,
)
from projects.drawn_world.study.comparison import compare, correct
from projects.drawn_world.study.run import command, measured, pending
from qbheat_mm.cli.command_line import quoted
from qbheat_mm.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
STUDY = ROOT / 'projects/drawn_world/study'


def row(of, **metrics):
    return Row(*of, 'cpu', metrics, 10., 'command', 'commit', 'date', '')


def write_log(work_dir, *lines, time='20260101_000000'):
    folder = work_dir / time / 'vis_data'
    folder.mkdir(parents=True)
    (folder / 'scalars.json').write_text(
        ''.join(json.dumps(line) + '\n' for line in lines))


@pytest.fixture
def study():
    return Study(
        (Arm('base', 'base', 'demo/base.py', seeds=2),
         Arm('random', 'random', None, seeds=1),
         Arm('whole', 'whole', None, start='base', seeds=2,
             encoder=('model.backbone.frozen_stages=-1', )),
         Arm('tuned', 'tuned', 'tuned.py', start='base', probes=(), seeds=1)),
        (Probe('lin', 'lin.py', {'top-1': 'accuracy/top1'}, ('a=1', )), ))


def test_the_last_value_of_the_newest_run_counts(tmp_path):
    write_log(tmp_path, {'loss': 1., 'step': 1}, {'accuracy/top1': 10.},
              {'accuracy/top1': 20.})
    assert read_metric(tmp_path, 'accuracy/top1') == 20
    write_log(tmp_path, {'coco/bbox_mAP': .3}, time='20260101_000001')
    assert read_metric(tmp_path, 'coco/bbox_mAP') == 30


def test_what_was_not_evaluated_is_an_error(tmp_path):
    with pytest.raises(UserError, match='has no log'):
        read_metric(tmp_path, 'accuracy/top1')
    write_log(tmp_path, {'loss': 1., 'step': 1})
    for name in ('accuracy/top1', 'coco/bbox_mAP'):
        with pytest.raises(UserError, match=f"no '{name}'"):
            read_metric(tmp_path, name)
    # A detector that finds nothing has no AP in its log.
    write_log(tmp_path, {'step': 1}, time='20260101_000001')
    assert read_metric(tmp_path, 'coco/bbox_mAP') == 0


def test_a_few_slow_steps_do_not_count(tmp_path):
    write_log(tmp_path, *(dict(loss=1., time=t, step=10 * i)
                          for i, t in enumerate((5., .2, .2, .3, .1), 1)),
              {'accuracy/top1': 50., 'time': 9., 'step': 50})
    assert steady_seconds(tmp_path) == 10.


def test_rows_are_read_back_and_never_changed(tmp_path):
    path = tmp_path / 'new/rows.jsonl'
    assert read_rows(path) == {}
    first, second = Run('base', 0, 'lin'), Run('base', 1, 'lin')
    add_row(path, row(first, **{'top-1': 3.}))
    before = path.read_bytes()
    add_row(path, row(second, **{'top-1': 4., 'AP': 5.}))
    assert path.read_bytes().startswith(before)
    rows = read_rows(path)
    assert list(rows) == [first, second]
    assert values(rows, 'base', 'lin', 'top-1') == {0: 3., 1: 4.}
    assert values(rows, 'base', 'lin', 'AP') == {1: 5.}


@pytest.mark.parametrize('old, new, named', [
    ('"stage"', '"stge"', 'line 1: .*`stage`'),
    ('"seed":0', '"seed":"0"', r'line 1: .*\$\.seed'),
    ('{"top-1":3.0}', '{"top-1":null}', r'line 1: .*\$\.metrics'),
    ('}\n', '}\n{"arm": "ba', 'line 2'),
    ('"seed":1', '"seed":0', 'two rows of base/0/lin')])
def test_wrong_rows_are_errors(tmp_path, old, new, named):
    path = tmp_path / 'rows.jsonl'
    for seed in range(2):
        add_row(path, row(Run('base', seed, 'lin'), **{'top-1': 3.}))
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(UserError, match=named):
        read_rows(path)


def test_runs_come_after_the_encoder_they_start_from(study, tmp_path):
    order = pending(study, {}, tmp_path)
    assert sorted(order) == sorted(study.runs()) and len(order) == 8
    for each in order:
        start = study.start(each)
        assert not start or order.index(start) < order.index(each)


def test_finished_runs_are_not_repeated(study, tmp_path):
    encoder, probe = Run('base', 0, ENCODER), Run('base', 0, 'lin')

    def left(*done):
        return pending(study, done, tmp_path, lambda each: (
            each.arm in ('base', 'whole') and each.seed == 0))

    whole = Run('whole', 0, 'lin')
    # A probe needs weights, and from a training that has ended.
    assert left(encoder) == [encoder, probe, whole]
    weights = tmp_path / 'base/0/encoder/encoder.safetensors'
    weights.parent.mkdir(parents=True)
    weights.touch()
    assert left() == [encoder, probe, whole]
    assert left(encoder) == [probe, whole]
    assert left(encoder, probe, whole) == []


def test_commands(study, tmp_path):
    def options(*names):
        words = command(study, tmp_path, Run(*names))
        return words[words.index('--cfg-options') + 1:]

    weights = 'model.backbone.init_cfg.checkpoint=' + quoted(
        str(tmp_path / 'base/1/encoder/encoder.safetensors'))
    assert options('base', 1, ENCODER) == ['randomness.seed=1']
    assert options('base', 1, 'lin') == ['randomness.seed=1', 'a=1', weights]
    assert options('random', 0, 'lin') == [
        'randomness.seed=0', 'a=1', 'model.backbone.init_cfg=None']
    assert options('whole', 1, 'lin') == [
        'randomness.seed=1', 'model.backbone.frozen_stages=-1', 'a=1',
        weights]


def test_metrics_must_be_finite(study, tmp_path):
    probe = Run('base', 0, 'lin')
    for value in (math.nan, math.inf):
        write_log(tmp_path / str(probe), {'accuracy/top1': value},
                  time=str(value))
        with pytest.raises(UserError, match='top-1 of .* is (nan|inf)'):
            measured(study, tmp_path, probe)


def test_two_arms_of_one_name_are_refused():
    with pytest.raises(UserError, match='the same name'):
        Study((Arm('a', '', None), Arm('a', '', None)), ())


def test_statistics_of_pairs():
    baseline = dict(enumerate((1., 2., 3., 4., 5., 6., 7.)))
    found = compare({s: v + 1 + s / 10 for s, v in baseline.items()
                     if s < 6} | {9: 0.}, baseline)
    assert list(found.differences) == pytest.approx(
        [1, 1.1, 1.2, 1.3, 1.4, 1.5])
    assert found.mean == pytest.approx(1.25)
    assert 1 < found.low < 1.25 < found.high < 1.5
    assert found.p == 2 / 2**6  # the least of six seeds
    few = compare({0: 1., 1: 3.}, baseline)
    assert few.mean == .5
    assert math.isnan(few.low) and math.isnan(few.p)
    assert compare({9: 1.}, baseline) is None
    # A sign-flip test by hand: 2 of 64 flips are as extreme on each side.
    mixed = compare({0: 0.9, 1: 4., 2: 5., 3: 6., 4: 7., 5: 8.}, baseline)
    assert mixed.p == 4 / 64


def test_corrected_p_values():
    p_values = correct([.01, math.nan, .04, .03])
    assert p_values[[0, 2, 3]] == pytest.approx([.03, .04, .04])
    assert math.isnan(p_values[1])


def test_every_row_of_the_evidence_belongs_to_the_study():
    """Figures of renamed arms, probes and metrics would silently go missing.
    """
    study = runpy.run_path(str(STUDY / 'arms.py'))['STUDY']
    rows = read_rows(ROOT / 'docs/evidence/results.jsonl')
    for arm, seed, stage in rows:
        assert stage in (ENCODER, 'matrices', *study.probes)
        assert seed < study.arms[arm].seeds
    for question in study.questions:
        for arm in (question.baseline, *question.arms):
            assert any(values(rows, arm, *column)
                       for column in question.columns), (question, arm)
        for column in question.columns:
            assert values(rows, question.baseline, *column), column
    assert pending(study, rows, Path('none')) == []


def test_own_images_train_random_weights_without_layer_decay(
        tmp_path, monkeypatch):
    """It would nearly freeze the early layers of the supervised arm."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'data/own/train').mkdir(parents=True)
    study = runpy.run_path(str(STUDY / 'own_data.py'))['STUDY']
    rates = {}
    for name in ('supervised', 'fine-tuned'):
        arm = study.arms[name]
        cfg = Config.fromfile(ROOT / 'configs' / arm.config)
        cfg.merge_from_dict({key: None if value == 'None' else float(value)
                             for key, value in (option.split('=')
                                                for option in arm.options)})
        init_default_scope('mmpretrain')
        model = MODELS.build(cfg.model)
        wrapper = build_optim_wrapper(model, cfg.optim_wrapper)
        rates[name] = {group['lr'] for group in wrapper.param_groups}
        DefaultScope._instance_dict.clear()
    assert len(rates['supervised']) == 1 < len(rates['fine-tuned'])


def test_a_study_runs_and_is_reported(tmp_path, monkeypatch, capsys,
                                      in_process):
    monkeypatch.setattr(run, 'run_jobs', jobs.run_jobs)
    monkeypatch.chdir(tmp_path)
    Path('tiny.py').write_text("""
from projects.drawn_world.study import *
TINY = ('train_dataloader.dataset.sizes=tiny',
        'val_dataloader.dataset.sizes=tiny')
FAST = (TINY[0], 'train_cfg.max_epochs=1', 'train_dataloader.batch_size=16')
ARMS = [Arm('one', 'the arm', 'demo/qbheat_mf-demo_random.py', FAST, seeds=1)]
PROBES = [Probe('lin', 'demo/mf-demo_linear.py', ACCURACY,
                (*FAST, TINY[1], 'train_cfg.val_interval=1')),
          Probe('features', 'demo/mf-demo_linear.py', {'k-NN': 'k-NN'}, TINY,
                measured=True)]
STUDY = Study(ARMS, PROBES, [Question(
    'same', 'Is it itself?', 'one', ['one'],
    [('lin', 'top-1'), ('features', 'k-NN')])], 'About one arm.')
""")

    def call(main, *arguments):
        monkeypatch.setattr('sys.argv', ['x', '--study', 'tiny.py',
                                         *arguments])
        main()
        return capsys.readouterr().out

    assert '\n0 left\n' in call(run.main)
    folder = Path('work_dirs/tiny')
    rows = read_rows(folder / 'rows.jsonl')
    assert [row.stage for row in rows.values()][0] == ENCODER
    assert len(rows) == 3
    assert rows[Run('one', 0, ENCODER)].command.startswith(
        'python tools/train.py projects/drawn_world/configs/qbheat')
    assert '0 to run' in call(run.main, '--plan')
    call(report.main)
    page = (folder / 'evidence.md').read_text()
    assert 'About one arm.' in page and '3 runs on' in page
    assert re.search(r'\| the arm +\| \+0.0 +\| \+0.0', page)
    assert (folder / 'evidence/same.svg').stat().st_size > 1000
