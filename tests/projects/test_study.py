"""Rows of finished runs: written once, read, compared and reported."""
import json
import math
import re
import runpy
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS, DefaultScope, init_default_scope

from projects.study import (
    CLASSIFY,
    ENCODER,
    Arm,
    Column,
    Pair,
    Probe,
    Question,
    Study,
    forest,
    jobs,
    report,
    run,
    speed,
    tables,
)
from projects.study.answers import (
    Answer,
    answer,
    fill_numbers,
    number,
    summarize,
)
from projects.study.comparison import compare, joint_verdict
from projects.study.results import (
    Row,
    Run,
    add_row,
    read_metric,
    read_rows,
    values,
)
from projects.study.run import command, measured, pending
from qbheat_mm.errors import UserError

from ..helpers.tools import ROOT

STUDY = ROOT / 'projects/study'


def row(of, **metrics):
    return Row(*of, metrics, 10., 'command', 'commit', 'date', 'cpu')


def write_log(work_dir, *lines, time='20260101_000000'):
    folder = work_dir / time / 'vis_data'
    folder.mkdir(parents=True)
    (folder / 'scalars.json').write_text(
        ''.join(json.dumps(line) + '\n' for line in lines))


@pytest.fixture
def study():
    return Study(
        (Arm('base', 'base', 'demo/base.py', data='drawn-{seed}'),
         Arm('random', 'random', None),
         Arm('whole', 'whole', None, start='base'),
         Arm('tuned', 'tuned', 'tuned.py', start='base',
             metrics={'top-1': 'accuracy/top1'}),
         Arm('hog', 'HOG', None, features='hog')),
        (Probe('lin', 'study/lin.py', {'top-1': 'accuracy/top1'}, ('a=1', )),
         Probe('classes', 'lin.py', {'top-1': 'top-1'}, data='real-{seed}',
               script=CLASSIFY)),
        (Question('first', 'First', ('top-1', ),
                  [Pair(('base', 'lin'), ('random', 'lin'))], range(2)),
         Question('second', 'Second', ('top-1', ), seeds=range(1),
                  table=('hog', 'base'), columns=[Column('classes', 'top-1')]),
         Question('third', 'Third', ('top-1', ), [
             Pair(('tuned', ENCODER), ('whole', 'lin'))], range(1))))


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


def test_statistics_of_pairs():
    baseline = dict(enumerate((1., 2., 3., 4., 5., 6., 7.)))
    found = compare({s: v + 1 + s / 10 for s, v in baseline.items()
                     if s < 6} | {9: 0.}, baseline)
    assert list(found.differences) == pytest.approx(
        [1, 1.1, 1.2, 1.3, 1.4, 1.5])
    assert found.mean == pytest.approx(1.25)
    # 2.5706 is the t quantile of five degrees of freedom.
    half = 2.5706 * .18708 / 6**.5
    assert (found.low, found.high) == pytest.approx(
        (1.25 - half, 1.25 + half), abs=1e-4)
    few = compare({0: 1., 1: 3.}, baseline)
    assert few.mean == .5 and math.isnan(few.low) and few.verdict == ''
    assert compare({9: 1.}, baseline) is None


@pytest.mark.parametrize('differences, verdict', [
    ((3., 4., 5.), 'yes'), ((-3., -4., -5.), 'no, worse'),
    ((-.1, .1, .2), 'no'), ((-5., 0., 9.), 'undecided'),
    ((1., 1., 1.), '')])  # one measurement
def test_verdicts(differences, verdict):
    found = compare(dict(enumerate(differences)), dict.fromkeys(range(3), 0.))
    assert found.verdict == verdict


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


def test_the_pages_are_those_of_the_rows(monkeypatch):
    monkeypatch.setattr('sys.argv', ['report.py'])
    written = []
    monkeypatch.setattr(Path, 'write_text', lambda *args: written.append(args))
    monkeypatch.setattr(report, 'draw_forest', lambda *args: None)
    monkeypatch.setattr(report, 'draw_speed', lambda *args: None)
    report.main()
    for page, text, _ in written:
        assert text == page.read_text('utf-8')
    assert written


def test_figures_fit_on_a_phone():
    """A page of 400 pixels has room for 368, which are 276 points."""
    figures = sorted((ROOT / 'docs/evidence').glob('*.svg'))
    widths = {}
    for file in figures:
        root = ElementTree.parse(file).getroot()
        widths[file.name] = float(root.get('width').removesuffix('pt'))
    assert max(widths.values()) <= 276, widths


def test_a_half_finished_question_says_so(study):
    rows = {Run(*run): row(Run(*run), **{'top-1': top}) for run, top in (
        (('base', 0, 'lin'), 5.), (('random', 0, 'lin'), 3.),
        (('base', 1, 'lin'), 9.))}
    first, second, _ = study.questions
    text = report.page(study, rows, 'rows.jsonl')
    assert '- base against random: +2.0 (1 of 2 seeds)\n' in text
    assert second.title in text.partition('## Not computed')[2]
    rows[Run('hog', 0, 'classes')] = row(
        Run('hog', 0, 'classes'), **{'top-1': 4.})
    assert f'**{second.title}?**\n\n| frozen' in report.page(
        study, rows, 'rows.jsonl').partition('<details>')[2]
    assert report.fill('a<!-- results -->b<!-- /results -->c', 'results',
                       'x') == (
        'a<!-- results -->\nx\n<!-- /results -->c')


def test_pages_name_numbers_of_the_rows():
    rows = {}
    for arm, tops in dict(ours=(4., 5., 6.), theirs=(3., 3., 2.)).items():
        for seed, top in enumerate(tops):
            of = Run(arm, seed, 'lin')
            rows[of] = row(of, **{'top-1, 30 labels': top})
    assert fill_numbers(
        'has <!--=ours/lin/top-1, 30 labels-->9.9<!--/-->, <!--=ours:theirs'
        '/lin/top-1, 30 labels--><!--/--> more, <!--=x/lin/top-1-->7<!--/-->',
        rows) == (
        'has <!--=ours/lin/top-1, 30 labels-->5.0<!--/-->, <!--=ours:theirs'
        '/lin/top-1, 30 labels-->+2.3 [-1.5, +6.1]<!--/--> more, '
        '<!--=x/lin/top-1-->-<!--/-->')
    assert number(rows, 'ours:theirs', 'lin', 'top-1, 30 labels?') == (
        'undecided')
    assert number(rows, 'ours@2', 'lin', 'top-1, 30 labels') == '6.0'
    assert number(rows, 'ours@9', 'lin', 'top-1, 30 labels') == '-'


def test_a_second_probe_may_be_another_stage(study):
    asked = Question('q', 'Better', ('ridge', 'lin/top-1'), [
        Pair(('base', 'classes'), ('random', 'classes'))])
    assert asked.cells == [('base', 'classes'), ('base', 'lin'),
                           ('random', 'classes'), ('random', 'lin')]
    rows = {}
    for arm, top in (('base', 5.), ('random', 3.)):
        for stage, metric in (('classes', 'ridge'), ('lin', 'top-1')):
            of = Run(arm, 0, stage)
            rows[of] = row(of, **{metric: top})
    [found] = answer(study, rows, asked)
    assert str(found) == 'ridge +2.0, lin +2.0 (1 of 6 seeds)'


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


def test_times_are_shown_as_speed(tmp_path):
    (tmp_path / 'speed.csv').write_text(
        'what,peer,measure,Intel,AMD,limit,note,command\n'
        'a step,theirs,time,0.5 0.4,,0.25,one thread,python x.py\n')
    ratios = speed.read_speed(tmp_path / 'speed.csv')
    assert ratios[0].speeds == {'Intel': (2., 2.5), 'limit': (4., 4.)}
    assert speed.speed_table(ratios).splitlines()[-1] == (
        '| a step, one thread | theirs | 2 to 2.5 |     | 4     '
        '| `python x.py` |')


@pytest.fixture
def classified(study):
    """Base gains 5 to 7 points over random weights by ridge regression."""
    rows = {}
    for seed in range(3):
        for arm, ridge, tran in (('base', 8. + seed, 3.), ('random', 3., 0.)):
            of = Run(arm, seed, 'lin')
            rows[of] = row(of, **{'ridge': ridge, 'tran-1': tran + seed % 2
                                  * ridge})
    study.primary = 3
    study.questions = [Question(
        'both', 'Better', ('ridge', 'tran-1'),
        [Pair(('base', 'lin'), ('random', 'lin'), 'steel')], range(3))]
    return rows


def test_a_verdict_of_classes_is_that_of_both_probes(study, classified):
    [found] = answer(study, classified, *study.questions)
    assert {name: each.verdict for name, each in found.differences.items()
            } == {'ridge': 'yes', 'tran-1': 'undecided'}
    both = 'undecided: probes disagree (ridge yes; tran-1 undecided)'
    assert found.verdict == both
    assert number(classified, 'base:random', 'lin', 'ridge+tran-1?') == both
    assert number(classified, 'base:random', 'lin', 'ridge?') == 'yes'
    text = report.overview([report.Reported(
        study, classified, Path('x/rows.jsonl'))])
    assert ('### Better?\n\nBase: **undecided: probes disagree** on steel '
            'against random. [More](evidence/rows.md#better)') in text
    for of in list(classified):
        classified[of].metrics['tran-1'] = classified[of].metrics['ridge']
    [found] = answer(study, classified, *study.questions)
    assert found.verdict == 'yes'
    del classified[Run('base', 2, 'lin')].metrics['tran-1']
    [found] = answer(study, classified, *study.questions)
    assert found.verdict == '' and found.missing == '2 of 3 seeds'
    for each in classified.values():
        each.metrics.pop('tran-1', None)
    [found] = answer(study, classified, *study.questions)
    assert found.verdict == '' and [*found.differences] == ['ridge']


@pytest.mark.parametrize('ridge, tran, verdict', [
    ((3., 4., 5.), (1., 2., 3.1), 'undecided: probes disagree (ridge yes; '
     'tran-1 undecided)'),
    ((-3., -4., -5.), (-.1, .1, .2), 'no'),
    ((-3., -4., -5.), (3., 4., 5.),
     'undecided: probes disagree (ridge no, worse; tran-1 yes)'),
    ((3., 4., 5.), (3., 4.), ''), ((3., 4., 5.), (3., 4., 5.5), 'yes')])
def test_joint_verdicts(ridge, tran, verdict):
    comparisons = {}
    for name, differences in {'ridge': ridge, 'tran-1': tran}.items():
        comparisons[name] = compare(
            dict(enumerate(differences)), dict.fromkeys(range(3), 0.))
    assert joint_verdict(comparisons) == verdict


def test_one_measurement_has_no_deviation():
    assert tables.cell([87.1, 87.1, 87.1], 3) == '87.1'
    assert tables.cell([87., 88., 89.], 3) == '88.0 ± 1.0'
    assert tables.cell([87., 88.], 3) == '87.5 ± 0.7 (2 of 3 seeds)'


def test_rows_with_another_seed_of_the_probe_are_marked(study, classified):
    def text():
        return report.page(study, classified, 'rows.jsonl')

    assert 'Seeds: 3, or one without ± (probe seed 0).' in text()
    for of, each in classified.items():
        each.probe_seed = of.seed
    assert 'probe seed 0' not in text()


def test_equal_answers_are_equal_figures(tmp_path):
    found = Answer('steel', 'ours', 'theirs', {'ridge': compare(
        {0: 3., 1: 4., 2: 6.}, dict.fromkeys(range(3), 1.))}, 'yes', '')
    with forest.figure_style():
        for name in 'ab':
            forest.draw_forest({'Classes': [found]}, {'steel': 'blue'},
                               tmp_path / f'{name}.svg')
    text = (tmp_path / 'a.svg').read_text()
    assert text == (tmp_path / 'b.svg').read_text()
    assert '>Classes<' in text and '>steel: ours against theirs<' in text
    assert forest.describe([found]) == (
        'Forest plot of a difference of +3.3 points')


@pytest.mark.parametrize('tran, words', [
    ({0: 3., 1: 4., 2: 6.}, 'no interval, since all seeds agree'),
    ({0: 3.}, 'too few seeds')])
def test_seeds_that_agree_are_not_too_few(tran, words):
    baseline = dict.fromkeys(range(3), 1.)
    ridge = dict.fromkeys(tran, 2.0)
    found = Answer('steel', 'ours', 'theirs', {
        'tran-1': compare(tran, baseline), 'ridge': compare(ridge, baseline)},
        '', '')
    assert words in summarize([found])


def test_minutes_are_values_of_a_run():
    of = Run('base', 0, ENCODER)
    assert values({of: row(of)}, 'base', ENCODER, 'CPU minutes') == {
        0: 10 / 60}
