# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Rows of a study."""
from projects.study.results import Row


def row(of, **metrics):
    return Row(*of, metrics, 10., 'command', 'commit', 'date', 'cpu')
