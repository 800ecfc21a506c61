"""Comparisons of rows, their verdicts, and the pages that show them."""
import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from projects.study import (
    ENCODER,
    Pair,
    Question,
    forest,
    report,
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
from projects.study.results import Run, values

from ..helpers.rows import row
from ..helpers.tools import ROOT


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


def test_rows_with_another_seed_of_the_probe_are_marked(study, classified):
    def text():
        return report.page(study, classified, 'rows.jsonl')

    assert 'Seeds: 3, or one without ± (probe seed 0).' in text()
    for of, each in classified.items():
        each.probe_seed = of.seed
    assert 'probe seed 0' not in text()


def test_one_measurement_has_no_deviation():
    assert tables.cell([87.1, 87.1, 87.1], 3) == '87.1'
    assert tables.cell([87., 88., 89.], 3) == '88.0 ± 1.0'
    assert tables.cell([87., 88.], 3) == '87.5 ± 0.7 (2 of 3 seeds)'


def test_minutes_are_values_of_a_run():
    of = Run('base', 0, ENCODER)
    assert values({of: row(of)}, 'base', ENCODER, 'CPU minutes') == {
        0: 10 / 60}


def test_figures_fit_on_a_phone():
    """A page of 400 pixels has room for 368, which are 276 points."""
    figures = sorted((ROOT / 'docs/evidence').glob('*.svg'))
    widths = {}
    for file in figures:
        root = ElementTree.parse(file).getroot()
        widths[file.name] = float(root.get('width').removesuffix('pt'))
    assert max(widths.values()) <= 276, widths


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


def test_times_are_shown_as_speed(tmp_path):
    (tmp_path / 'speed.csv').write_text(
        'what,peer,measure,Intel,AMD,limit,note,command\n'
        'a step,theirs,time,0.5 0.4,,0.25,one thread,python x.py\n')
    ratios = speed.read_speed(tmp_path / 'speed.csv')
    assert ratios[0].speeds == {'Intel': (2., 2.5), 'limit': (4., 4.)}
    assert speed.speed_table(ratios).splitlines()[-1] == (
        '| a step, one thread | theirs | 2 to 2.5 |     | 4     '
        '| `python x.py` |')
