# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The file that declares a study."""
import runpy
from collections.abc import Sequence
from pathlib import Path

from ..errors import UserError
from .arms import Study
from .report import Question


def load_study(path: Path) -> tuple[Study, Sequence[Question]]:
    """Run a Python file that sets ``STUDY`` and, for a report, ``QUESTIONS``.

    Raises:
        UserError: There is no such file, or it declares no study, or a
            question names an arm that the study lacks.
    """
    if not path.is_file():
        raise UserError(f"--study: there is no file '{path}'")
    names = runpy.run_path(str(path))
    study, questions = names.get('STUDY'), names.get('QUESTIONS', ())
    if not isinstance(study, Study):
        raise UserError(f"--study: '{path}' sets no STUDY, as "
                        'qbheat_mm.study.Study(arms, probes)')
    for question in questions:
        for name in (question.baseline, *question.arms):
            if name not in study.arm_names:
                raise UserError(f'question {question.name!r} asks for the '
                                f'arm {name!r}, which the study lacks')
    return study, questions
