# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The file that declares a study."""
import runpy
from collections.abc import Sequence
from pathlib import Path

from qbheat_mm.errors import UserError

from .design import ENCODER, Study
from .tables import Question


def load_study(path: Path) -> tuple[Study, Sequence[Question]]:
    """Run a Python file that sets ``STUDY`` and, for a report, ``QUESTIONS``.

    Raises:
        UserError: There is no such file, it is no Python or declares no
            study, or a question names an arm or a figure that it lacks.
    """
    if not path.is_file():
        raise UserError(f"--study: there is no file '{path}'")
    try:
        names = runpy.run_path(str(path))
    except SyntaxError as error:
        raise UserError(f"--study: '{error.filename}', line {error.lineno}: "
                        f'{error.msg}, mend it') from error
    study, questions = names.get('STUDY'), names.get('QUESTIONS', ())
    if not isinstance(study, Study):
        raise UserError(f"--study: '{path}' sets no STUDY, as "
                        'projects.drawn_world.study.Study(arms, probes)')
    figures = _figures(study)
    for question in questions:
        for name in (question.baseline, *question.arms):
            if name not in study.arm_names:
                raise UserError(f'question {question.name!r} asks for the '
                                f'arm {name!r}, which the study lacks')
        for figure in (*question.decisive, *question.columns):
            if figure not in figures:
                raise UserError(
                    f'question {question.name!r} asks for {figure!r}, which '
                    'nothing measures: name (probe, metric) or '
                    "('encoder', metric)")
            if figure not in question.columns:
                raise UserError(
                    f'question {question.name!r} is decided by {figure!r}, '
                    'which it does not show: add it to its figures')
    return study, questions


def _figures(study: Study) -> set[tuple[str, str]]:
    """All that is measured: stage and metric."""
    return {(probe.name, metric) for probe in study.probes
            for metric in probe.metrics} | {
                (ENCODER, metric) for arm in study.arms
                for metric in arm.metrics}
