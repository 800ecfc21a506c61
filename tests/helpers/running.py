# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Run a page's code blocks as a reader would, but in this process.

All blocks share one import of torch and the toolboxes.
"""
import glob
import os
import re
import runpy
import shlex
import string
import sys
from pathlib import Path

from mmengine.utils import get_installed_path

from .pages import ROOT, Block

_ASSIGNMENT = re.compile(r'(?:export )?(\w+)=(\S*)')


class Page:
    """A reader in a folder with the project's ``configs`` and ``tools``.

    ``shorter`` replaces text of the page to save time.
    """

    def __init__(self, folder: Path, monkeypatch, forget, shorter) -> None:
        self.monkeypatch, self.forget = monkeypatch, forget
        self.shorter = shorter
        self.names: dict = {'__name__': 'page'}
        self.variables: dict[str, str] = {}
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(str(folder))

    def run(self, blocks: list[Block]) -> None:
        """Run blocks in order; a failure names the line of the page."""
        page = ''.join(block.text for block in blocks)
        assert all(key in page for key in self.shorter), self.shorter
        for block in blocks:
            text = block.text
            for long, short in self.shorter.items():
                text = text.replace(long, short)
            try:
                if block.language == 'python':
                    self._run_python(text, block.where)
                else:
                    for line in re.sub(r'\\\n\s*', ' ', text).splitlines():
                        self._run_line(line.strip())
            except (Exception, SystemExit) as error:
                raise AssertionError(f'{block.where} fails') from error

    def _run_python(self, text: str, where: str) -> None:
        """Run a block, or write it where its first line names a file."""
        file = re.match(r'# (\w+\.py)\n', text)
        if file:
            Path(file[1]).write_text(text, encoding='utf-8')
        else:
            exec(compile(text, where, 'exec'), self.names)
        self.forget()

    def _run_line(self, line: str) -> None:
        text = string.Template(line).safe_substitute(self.variables)
        text = re.sub(r'\$\(cat (\S+)\)',
                      lambda match: Path(match[1]).read_text(), text)
        words = shlex.split(text, comments=True)
        if assignment := _ASSIGNMENT.fullmatch(text):
            self.variables[assignment[1]] = words[-1].partition('=')[2]
        elif words:
            if words[:3] == ['mim', 'run', 'mmdet']:
                tool, = Path(get_installed_path('mmdet'), '.mim/tools').rglob(
                    f'{words[3]}.py')
                words[:4] = ['python', str(tool)]
            assert words[0] == 'python', f'cannot run {line}'
            expanded = []
            for word in words[1:]:
                found = sorted(glob.glob(word)) if '*' in word else [word]
                expanded += found
            self._run_program(expanded)

    def _run_program(self, words: list[str]) -> None:
        """Do what ``python WORDS`` does, and forget the tool's modules."""
        before = {*sys.modules}
        with self.monkeypatch.context() as patch:
            patch.setattr(sys, 'argv', words)
            patch.syspath_prepend(str(Path(words[0]).parent))
            try:
                if words[0] == '-c':
                    exec(words[1], {'__name__': '__main__'})
                else:
                    runpy.run_path(words[0], run_name='__main__')
            except SystemExit as error:
                if error.code:
                    raise
        for name in {*sys.modules} - before:
            file = getattr(sys.modules[name], '__file__', None) or ''
            if os.path.realpath(file).startswith(str(ROOT / 'tools')):
                del sys.modules[name]
        self.forget()
