# Copyright (c) QB-Heat MM authors. All rights reserved.
"""From rows to sentences."""
import dataclasses
import re
from pathlib import Path

import pytest

from projects.drawn_world.study import Arm, Probe, Results, Study
from projects.drawn_world.study.arms import ENCODER, Run
from projects.drawn_world.study.files import load_study
from projects.drawn_world.study.report import (
    Question,
    summary,
    to_markdown,
    to_report,
)
from qbheat_mm.errors import UserError

SHIPPED = Path(__file__).parents[2] / 'tools/study/arms.py'
STUDY = Study(
    (Arm('base', 'random', 'base.py', seeds=6),
     Arm('other', 'QB-Heat', 'base.py', seeds=6)),
    (Probe('lin', 'lin.py', {'top-1': ('accuracy/top1', 1)}),
     Probe('features', 'lin.py', {'commutator': ('commutator', 1)},
           tool='x.py')))
QUESTION = Question('helps', 'Does it help?', 'base', ('other', ),
                    (('lin', 'top-1'), ('features', 'commutator')))


def results(tmp_path, seeds, gain):
    found = Results(tmp_path / 'rows.jsonl', 'cpu')
    for seed in range(seeds):
        for arm, value in (('base', 20.), ('other', 20. + gain(seed))):
            found.add(Run(arm, seed, 'lin'),
                      dict(metrics={'top-1': value + seed}, seconds=1.))
    return found


def test_an_answer_says_by_how_much_and_how_sure(tmp_path):
    text = to_markdown(STUDY, results(tmp_path, 6, lambda seed: 2. + seed),
                       QUESTION)
    # all six of one sign: p = 2 / 2**6, the other figure has no p-value
    assert '- **QB-Heat** against random: lin, top-1 +4.5 (6 seeds, p = ' \
        '0.031); commutator not measured yet.' in text
    assert '| random  | 6 of 6 | 22.5 ± 1.9 | not measured |' in text


def test_a_figure_of_fewer_seeds_says_so(tmp_path):
    found = results(tmp_path, 6, lambda seed: 2. + seed)
    for seed, value in ((1, 1.), (3, 2.)):
        found.add(Run('base', seed, 'features'),
                  dict(metrics={'commutator': value}, seconds=1.))
    text = to_markdown(STUDY, found, QUESTION)
    assert '| random  | 6 of 6 | 22.5 ± 1.9 | 1.50 ± 0.71 (2) |' in text


def test_what_cannot_be_tested_hides_nothing(tmp_path):
    """Two seeds of another arm leave the p-value of six as it was."""
    study = dataclasses.replace(STUDY, arms=(
        *STUDY.arms, Arm('third', 'MoCo-v2', 'base.py', seeds=6)))
    asked = dataclasses.replace(QUESTION, arms=('other', 'third'))
    found = results(tmp_path, 6, lambda seed: 2. + seed)
    for seed in range(2):
        found.add(Run('third', seed, 'lin'),
                  dict(metrics={'top-1': 50. + seed}, seconds=1.))
    text = to_markdown(study, found, asked)
    assert '(6 seeds, p = 0.031);' in text
    assert re.search(r'QB-Heat +\| \+4\.5 \[.*\], p 0\.031 +\|', text)
    assert re.search(r'MoCo-v2 +\| \+30\.0 +\|', text)


def test_a_baseline_alone_is_no_picture(tmp_path):
    found = Results(tmp_path / 'rows.jsonl', 'cpu')
    row = dict(metrics={'top-1': 20.}, seconds=1.)
    found.add(Run('base', 0, 'lin'), row)
    assert '![' not in to_markdown(STUDY, found, QUESTION)
    found.add(Run('other', 0, 'lin'), row)
    assert '![' in to_markdown(STUDY, found, QUESTION)


def test_the_papers_findings_are_marked_as_the_papers(tmp_path):
    asked = dataclasses.replace(QUESTION, paper='it does, by 5 (Table 1).')
    found = results(tmp_path, 1, lambda seed: 2.)
    said = 'In the paper (not ours):{} it does, by 5 (Table 1).'
    assert f"\n*{said.format('*')}\n" in to_markdown(STUDY, found, asked)
    assert said.format('') in to_report(STUDY, found, asked).caption
    assert 'In the paper' not in to_markdown(STUDY, found, QUESTION)


def test_no_is_an_answer(tmp_path):
    text = to_markdown(STUDY, results(
        tmp_path, 6, lambda seed: (-1)**seed), QUESTION)
    assert 'lin, top-1 +0.0 (6 seeds, p = 1.000), which may be luck;' in text


def test_what_the_correction_hides_is_not_called_luck(tmp_path):
    """Two comparisons, one of them of nothing: 0.031 becomes 0.062."""
    study = dataclasses.replace(STUDY, arms=(
        *STUDY.arms, Arm('third', 'MoCo-v2', 'base.py', seeds=6)))
    asked = dataclasses.replace(QUESTION, arms=('other', 'third'))
    found = results(tmp_path, 6, lambda seed: 2. + seed)
    for seed in range(6):
        found.add(Run('third', seed, 'lin'), dict(
            metrics={'top-1': 20. + seed + (-1)**seed}, seconds=1.))
    text = to_markdown(study, found, asked)
    assert ('lin, top-1 +4.5 (6 seeds, p = 0.062), more in each, which so '
            'few seeds cannot tell from luck here;') in text
    assert '+0.0 (6 seeds, p = 1.000), which may be luck;' in text


@pytest.mark.parametrize('seeds, gain, said', [
    (1, lambda seed: 9., '+9.0 (one seed)'),
    (3, lambda seed: 9., '+9.0 (3 seeds, more in each)'),
    (3, lambda seed: -seed - 1., '-2.0 (3 seeds, less in each)'),
    (3, lambda seed: seed - .5, '+0.5 (3 seeds, now more, now less)'),
    (3, lambda seed: float(seed), '+1.0 (3 seeds, now more, now less)'),
    (3, lambda seed: 0., '+0.0 (3 seeds, the same in each)'),
])
def test_few_seeds_are_told_by_their_signs(tmp_path, seeds, gain, said):
    text = to_markdown(STUDY, results(tmp_path, seeds, gain), QUESTION)
    assert f'lin, top-1 {said};' in text


@pytest.mark.parametrize('seeds, gain, said', [
    (6, lambda seed: 2. + seed, '+4.5 (6 of 6, p 0.031)'),
    (6, lambda seed: (-1)**seed * (seed + 1), '-0.5 (3 of 6, p 0.844)'),
    (2, lambda seed: -3., '-3.0 (2 of 2)'),
    (0, None, 'open'),
])
def test_at_a_glance(tmp_path, seeds, gain, said):
    """What decides two questions stands in one table, and no more."""
    again = dataclasses.replace(QUESTION, title='Or not?',
                                decisive=(('lin', 'top-1'), ))
    assert summary(STUDY, results(tmp_path, seeds, gain),
                   (QUESTION, again)) == [
        ['question', 'encoder', 'against', 'lin, top-1'],
        ['Does it help?', 'QB-Heat', 'random', said],
        ['Or not?', 'QB-Heat', 'random', said]]


def test_a_question_without_rows_is_one_line_each(tmp_path):
    text = to_markdown(STUDY, results(tmp_path, 0, None), QUESTION)
    assert '- **QB-Heat** against random: not measured yet.' in text
    assert '|' not in text


def test_a_figure_that_an_encoder_lacks_is_not_open(tmp_path):
    """A, B of other methods: their stage was run, and has no such figure."""
    found = results(tmp_path, 1, lambda seed: 1.)
    found.add(Run('base', 0, 'features'),
              dict(metrics={'commutator': 1.4}, seconds=1.))
    found.add(Run('other', 0, 'features'), dict(metrics={}, seconds=1.))
    text = to_markdown(STUDY, found, QUESTION)
    assert '| QB-Heat | 1 of 6 | 21.0       | none       |' in text
    assert '| QB-Heat        | +1.0       | none       |' in text
    assert 'not measured' not in text


def test_what_the_study_does_not_ask_for_is_not_open(tmp_path):
    study = dataclasses.replace(STUDY, arms=(
        STUDY.arms[0], dataclasses.replace(STUDY.arms[1], probes=('lin', ))))
    found = results(tmp_path, 1, lambda seed: 1.)
    found.add(Run('base', 0, 'features'),
              dict(metrics={'commutator': 1.4}, seconds=1.))
    text = to_markdown(study, found, QUESTION)
    assert '| QB-Heat | 1 of 6 | 21.0       | not asked  |' in text
    assert '| QB-Heat        | +1.0       | not asked  |' in text
    assert 'not measured' not in text


def test_rows_of_other_seeds_are_open_not_lacking(tmp_path):
    found = results(tmp_path, 1, lambda seed: 1.)
    for arm, seed in (('base', 0), ('other', 1)):
        found.add(Run(arm, seed, 'features'),
                  dict(metrics={'commutator': 1.4}, seconds=1.))
    text = to_markdown(STUDY, found, QUESTION)
    assert '| QB-Heat        | +1.0       | not measured |' in text
    assert 'top-1 +1.0 (one seed); commutator not measured yet.' in text


def test_the_page_has_the_same_tables(tmp_path):
    report = to_report(STUDY, results(tmp_path, 6, lambda seed: 2. + seed),
                       QUESTION)
    means, differences = report.tables
    assert means.rows[1][2] == '27.0 ± 3.7'
    assert differences.rows[0][1].startswith('+4.5 [')
    assert '**' not in report.caption


def test_a_page_in_html_has_no_marks_of_markdown(tmp_path):
    asked = dataclasses.replace(QUESTION, paper='`lin` of **it** is '
                                '[here](page.md).')
    found = results(tmp_path, 1, lambda seed: 1.)
    assert to_report(STUDY, found, asked).caption.endswith(
        'lin of it is here.')


@pytest.mark.parametrize('text, named', [
    (None, 'there is no file'),
    ('ARMS = ()', 'sets no STUDY'),
    ('from projects.drawn_world.study import Study\n'
     'from projects.drawn_world.study.report import Question\n'
     "STUDY = Study((), ())\nQUESTIONS = (Question('q', '', 'x', (), ()), )",
     "the arm 'x'"),
])
def test_files_that_declare_no_study(tmp_path, text, named):
    file = tmp_path / 'study.py'
    if text is not None:
        file.write_text(text)
    with pytest.raises(UserError, match=named):
        load_study(file)


def test_the_shipped_study_is_whole():
    study, questions = load_study(SHIPPED)
    asked = {name for q in questions for name in (q.baseline, *q.arms)}
    assert set(study.arm_names) == asked
    for question in questions:
        for stage, metric in question.columns:
            if stage != 'encoder':
                assert metric in study.probe(stage).metrics


#: The paper's figures by question, in the order of the text; its tables
#: "COCO object detection results" (AP of the frozen encoders, MF-Dec-522 and
#: -211 on MF-3.7G, -1.0G, -285M), "QB-Heat ablation experiments" (`lin` and
#: `tran-1`), "Fine-tuning results" and "Spectrum energy ratio".
SUPERVISED = (40.5, 38.3, 35.2, 34.1, 31.2, 27.8)
MOCOV2 = (25.5, 30.3, 31.8, 12.2, 16.9, 22.1)
QBHEAT = (43.5, 42.6, 39.7, 36.7, 35.7, 33.0)
FINE_TUNED = (45.5, 44.0, 41.6, 41.0, 39.3, 35.8)
#: The same with the backbone fine-tuned on COCO, too.
SUPERVISED_WHOLE = (48.1, 46.2, 42.5, 44.0, 42.5, 37.6)
QBHEAT_WHOLE = (48.0, 46.7, 42.6, 44.3, 42.4, 37.2)
PAPER = {
    'alternatives': (
        *[f(a - b for a, b in zip(QBHEAT, other))
          for other in (SUPERVISED, MOCOV2) for f in (min, max)], 65.6, 52.9),
    'whole-detector': [abs(f(a - b for a, b in zip(
        QBHEAT_WHOLE, SUPERVISED_WHOLE))) for f in (min, max)],
    'position': (77.9, 77.9, 78.6),
    'models': (78.4, 78.5, 78.6),
    'fine-tuning': (75.8, 75.7, 80.5, 79.4, 82.5, 80.8),
    'task-agnostic': [f(a - b for a, b in zip(FINE_TUNED, QBHEAT))
                      for f in (min, max)],
    'probes': (65.1, 78.6),
    'detr': (33.0, ),
    'matrices': (0.94, 0.69),
}


def test_the_papers_figures_are_the_papers():
    _, questions = load_study(SHIPPED)
    texts = {q.name: re.sub(r'MF-\d\.\dG', '', q.paper) for q in questions}
    assert {name: pytest.approx(figures) for name, figures in PAPER.items()
            } == {name: found for name, text in texts.items()
                  if (found := tuple(map(float, re.findall(
                      r'\d+\.\d+', text))))}


def test_what_is_measured_is_shown():
    """A run that no question tells of would be hours for nothing."""
    study, questions = load_study(SHIPPED)
    shown = {(arm, stage) for q in questions
             for arm in (q.baseline, *q.arms) for stage, _ in q.columns}
    measured = {(arm.name, stage) for arm in study.arms
                for stage in study.stages(arm)
                if stage != ENCODER or arm.metrics}
    assert not measured - shown
