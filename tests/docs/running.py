# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Run the code blocks of a page as a reader would, but in this process.

One import of torch and the toolboxes serves the whole page.
"""
import os
import re
import runpy
import shlex
import shutil
import string
import sys
from pathlib import Path

from mmengine.config import Config

from .reading import ROOT, Block

_ASSIGNMENT = re.compile(r'(?:export )?(\w+)=(\S*)')


class Page:
    """A reader in a folder that has the project's ``configs`` and ``tools``.

    Args:
        folder (Path): Where the page is followed.
        monkeypatch (pytest.MonkeyPatch): Of the test.
        forget (Callable): Drops what one run leaves for the next.
        shorter (dict[str, str]): Texts of the page, and replacements that
            take less time.
        added (dict[str, list[str]]): Arguments to add to commands that
            contain the key.
        small (dict[str, dict]): Settings for configurations of the project
            that take less time.
    """

    def __init__(self, folder: Path, monkeypatch, forget, shorter=(),
                 added=(), small=()) -> None:
        self.monkeypatch = monkeypatch
        self.forget = forget
        self.shorter, self.added = dict(shorter), dict(added)
        self.names: dict = {'__name__': 'page'}
        self.variables: dict[str, str] = {}
        if not (folder / 'tools').exists():
            (folder / 'tools').symlink_to(ROOT / 'tools')
            shutil.copytree(ROOT / 'configs', folder / 'configs')
        for name, settings in dict(small).items():
            cfg = Config.fromfile(ROOT / 'configs' / name)
            cfg.merge_from_dict(settings)
            cfg.dump(folder / 'configs' / name)
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(str(folder))

    def run(self, blocks: list[Block]) -> None:
        """Run blocks in order; a failure names the line of the page."""
        text = ''.join(block.text for block in blocks)
        unused = [key for key in (*self.shorter, *self.added)
                  if key not in text]
        assert not unused, f'no longer on the page: {unused}'
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
        assignment = _ASSIGNMENT.fullmatch(line)
        text = string.Template(line).safe_substitute(self.variables)
        words = shlex.split(text, comments=True)
        if assignment:
            self.variables[assignment[1]] = words[-1].partition('=')[2]
        elif words:
            for part, arguments in self.added.items():
                words += arguments if part in line else []
            assert words[0] == 'python', f'cannot run {line}'
            self._run_program([name for word in words[1:]
                               for name in expand(word)])

    def _run_program(self, words: list[str]) -> None:
        """Do what ``python WORDS`` does, and forget the tool's modules."""
        if words[0] == '-c':
            exec(compile(words[1], 'command', 'exec'), {})
            return
        is_module = words[0] == '-m'
        with self.monkeypatch.context() as patch:
            patch.setattr(sys, 'argv', words[1:] if is_module else words)
            before = {*sys.modules}
            try:
                if is_module:
                    runpy.run_module(words[1], run_name='__main__')
                else:
                    patch.syspath_prepend(str(Path(words[0]).parent))
                    runpy.run_path(words[0], run_name='__main__')
            except SystemExit as error:
                if error.code:
                    raise
            finally:
                for name in {*sys.modules} - before:
                    file = getattr(sys.modules[name], '__file__', None)
                    if file and os.path.realpath(file).startswith(
                            str(ROOT / 'tools')):
                        del sys.modules[name]
        self.forget()


def expand(word: str) -> list[str]:
    """Expand ``*`` as a shell does."""
    found = sorted(map(str, Path().glob(word))) if '*' in word else []
    return found or [word]
