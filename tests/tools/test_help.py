# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Every tool answers --help."""
import subprocess
import sys

from ..helpers.tools import ROOT

SCRIPT = """
import runpy, sys
for tool in sys.argv[1:]:
    sys.argv = [tool, '--help']
    sys.path.insert(0, tool.rpartition('/')[0])
    try:
        runpy.run_path(tool, run_name='__main__')
    except SystemExit as end:
        assert end.code == 0, tool
    print('answered')
"""


def test_every_tool_answers():
    tools = [file for file in (ROOT / 'tools').rglob('*.py')
             if 'parse_args' in file.read_text(encoding='utf-8')]
    printed = subprocess.run(
        [sys.executable, '-c', SCRIPT, *map(str, tools)], check=True,
        capture_output=True, text=True).stdout
    assert printed.splitlines().count('answered') == len(tools) > 20
