"""Run studies: their plans, commands and rows."""
import json
import math
import re
import runpy
import subprocess
from pathlib import Path

import pytest
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS, DefaultScope, init_default_scope

from projects.study import (
    ENCODER,
    Arm,
    Study,
    jobs,
    report,
    run,
)
from projects.study.results import (
    Run,
    add_row,
    read_metric,
    read_rows,
    values,
)
from projects.study.run import command, measured, pending
from qbheat_mm.errors import UserError

from ..helpers.rows import row
from ..helpers.tools import ROOT

STUDY = ROOT / 'projects/study'


def write_log(work_dir, *lines, time='20260101_000000'):
    folder = work_dir / time / 'vis_data'
    folder.mkdir(parents=True)
    (folder / 'scalars.json').write_text(
        ''.join(json.dumps(line) + '\n' for line in lines))


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
    write_log(tmp_path, {'loss': 1.}, {'step': 1}, {'coco/bbox_mAP': .3},
              time='20260101_000001')
    assert read_metric(tmp_path, 'coco/bbox_mAP@0') == 0
    assert read_metric(tmp_path, 'coco/bbox_mAP@1') == 30


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


def test_questions_are_run_in_order_and_encoders_before_their_probes(
        study, tmp_path):
    assert list(map(str, pending(study, {}, tmp_path))) == [
        'base/0/encoder', 'base/0/lin', 'random/0/lin',
        'base/1/encoder', 'base/1/lin', 'random/1/lin',
        'hog/0/classes', 'base/0/classes',
        'tuned/0/encoder', 'whole/0/lin']


def test_finished_runs_are_not_repeated(study, tmp_path):
    encoder, probe = Run('base', 0, ENCODER), Run('base', 0, 'lin')

    def left(*done):
        return pending(study, done, tmp_path, lambda each: each == probe)

    # A probe needs weights, and from a training that has ended.
    assert left(encoder) == [encoder, probe]
    weights = tmp_path / 'base/0/encoder/encoder.safetensors'
    weights.parent.mkdir(parents=True)
    weights.touch()
    assert left() == [encoder, probe]
    assert left(encoder) == [probe]
    assert left(encoder, probe) == []


def test_commands(study, tmp_path):
    def words(*names):
        return command(study, tmp_path, Run(*names))

    def options(*names):
        return words(*names)[words(*names).index('--cfg-options') + 1:]

    file = str(tmp_path / 'base/1/encoder/encoder.safetensors')
    weights = 'encoder=' + repr(file)
    train, val = (f'{loader}_dataloader.dataset.sizes=drawn-1'
                  for loader in ('train', 'val'))
    assert options('base', 1, ENCODER) == ['randomness.seed=1', train]
    assert options('base', 1, 'lin') == [
        'randomness.seed=1', train, val, 'a=1', weights]
    assert options('random', 0, 'lin') == [
        'randomness.seed=0', 'a=1', 'model.backbone.init_cfg=None']
    assert options('whole', 1, 'lin') == [
        'randomness.seed=1', 'a=1', weights]
    assert words('base', 1, 'classes')[1:4] == [
        str(STUDY / 'classify.py'), str(ROOT / 'configs/lin.py'), file]
    assert words('hog', 1, 'classes')[3] == 'hog'
    assert train.replace('drawn', 'real') in options('base', 1, 'classes')


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


@pytest.mark.parametrize('file', run.OWN)
def test_every_row_belongs_to_the_study_and_to_the_history(file):
    rows = read_rows(run.OWN[file])
    assert set(rows) <= set(runpy.run_path(str(file))['STUDY'].runs())
    plan = next(folder / 'PLAN.md' for folder in file.parents
                if (folder / 'PLAN.md').exists())
    planned = git('log', '--diff-filter=A', '--format=%H', '--', plan)
    for commit in {each.commit for each in rows.values()}:
        git('merge-base', '--is-ancestor', planned, commit)
        git('merge-base', '--is-ancestor', commit, 'HEAD')


def git(*words):
    if not (ROOT / '.git').exists():
        pytest.skip('not a clone')
    return subprocess.run(['git', '-C', str(ROOT), *words], check=True,
                          capture_output=True, text=True).stdout.strip()


def test_own_images_train_random_weights_without_layer_decay(
        tmp_path, monkeypatch):
    """It would nearly freeze the early layers of the supervised arm."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'data/own/train').mkdir(parents=True)
    (tmp_path / 'data/images').mkdir()
    (tmp_path / 'data/images/0.png').touch()
    study = runpy.run_path(str(STUDY / 'own_data.py'))['STUDY']
    rates = {}
    for name in ('supervised', 'fine-tuned'):
        arm = study.arms[name]
        cfg = Config.fromfile(ROOT / 'configs' / arm.config)
        for option in arm.options:
            key, value = option.split('=')
            cfg.merge_from_dict(
                {key: None if value == 'None' else float(value)})
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
from projects.study import *
TINY = ('train_dataloader.dataset.sizes=tiny',
        'val_dataloader.dataset.sizes=tiny')
FAST = (TINY[0], 'train_cfg.max_epochs=1', 'train_dataloader.batch_size=16')
ARMS = [Arm('one', 'the arm', 'demo/qbheat_mf-demo_random.py', FAST)]
PROBES = [Probe('lin', 'demo/mf-demo_linear.py', ACCURACY,
                (*FAST, TINY[1], 'train_cfg.val_interval=1')),
          Probe('classes', 'demo/mf-demo_linear.py', CLASSES, TINY,
                script=CLASSIFY)]
ARMS += [Arm('hog', 'HOG', None, features='hog')]
STUDY = Study(ARMS, PROBES, [Question(
    'same', 'Is it itself', ['top-1'], [Pair(('one', 'lin'), ('one', 'lin'))],
    range(1), ['one', 'hog'], [Column('classes', 'RBF')])], 'About one arm.')
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
    assert {row.stage: row.probe_seed for row in rows.values()} == {
        ENCODER: None, 'lin': None, 'classes': 0}
    assert len(rows) == 4
    assert rows[Run('one', 0, ENCODER)].command.startswith(
        'python tools/train.py projects/drawn_world/configs/qbheat')
    assert '0 to run' in call(run.main, '--plan')
    call(report.main)
    page = (folder / 'evidence.md').read_text()
    assert 'About one arm.' in page and 'from 4 runs' in page
    assert '- the arm against the arm: +0.0\n' in page
    assert re.search(r'\| HOG +\| \d', page)
    assert (folder / 'evidence/same.svg').stat().st_size > 1000


