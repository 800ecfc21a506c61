# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The study that is shipped asks all that it declares."""
import ast
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / 'tools/study'


@pytest.mark.parametrize('name', ['arms', 'own_data'])
def test_nothing_is_declared_that_nothing_reads(name):
    """A list of decisive figures was, and another list took its place."""
    tree = ast.parse((TOOLS / f'{name}.py').read_text())
    declared = {target.id for node in tree.body if isinstance(node, ast.Assign)
                for target in node.targets if isinstance(target, ast.Name)}
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)
            and isinstance(node.ctx, ast.Load)}
    assert declared - read == {'STUDY', 'QUESTIONS'}
