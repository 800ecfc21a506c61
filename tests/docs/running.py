# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Run the blocks of a page as its reader would, but in this process.

One import of torch and the toolboxes serves all of a page. Started as
programs of their own are only the shell scripts.
"""
import importlib.util
import os
import re
import runpy
import shlex
import shutil
import string
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from mmengine.config import Config

from .reading import ROOT, Block

_ASSIGNMENT = re.compile(r'(?:export )?(\w+)=(\S*)')


class Page:
    """A reader in a folder that has the project's ``configs`` and ``tools``.

    Args:
        folder (Path): Where the page is read.
        monkeypatch (pytest.MonkeyPatch): Of the test.
        forget (Callable): Drops what one run leaves for the next.
        shorter (Mapping[str, str]): Texts of the page, and what stands for
            them here, where what the page says would take long.
        added (Mapping[str, list[str]]): Words of a command, and arguments
            that are added to it.
        small (Mapping[str, dict]): Configurations of the project, and
            settings that they have here, where the page's take long.
    """

    def __init__(self, folder: Path, monkeypatch, forget: Callable,
                 shorter: Mapping[str, str] | None = None,
                 added: Mapping[str, list[str]] | None = None,
                 small: Mapping[str, dict] | None = None) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch
        self.forget = forget
        self.shorter = dict(shorter or {})
        self.added = dict(added or {})
        self.used: set[str] = set()
        self.names: dict = {'__name__': 'page'}
        self.variables: dict[str, str] = {}
        if not (folder / 'tools').exists():
            (folder / 'tools').symlink_to(ROOT / 'tools')
            shutil.copytree(ROOT / 'configs', folder / 'configs')
        for name, settings in (small or {}).items():
            cfg = Config.fromfile(ROOT / 'configs' / name)
            cfg.merge_from_dict(settings)
            cfg.dump(folder / 'configs' / name)
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(str(folder))

    def run(self, blocks: list[Block], whole: bool = True) -> None:
        """Run blocks in order.

        Args:
            blocks (list[Block]): Of the page.
            whole (bool): Whether no others follow. Defaults to True.

        Raises:
            AssertionError: Naming the place on the page, where one fails.
        """
        for block in blocks:
            text = self._shorten(block.text)
            try:
                if block.language == 'python':
                    self._run_python(text, block.where)
                else:
                    for line in shell_lines(text):
                        self._run_line(line)
            except (Exception, SystemExit) as error:
                raise AssertionError(f'{block.where} fails') from error
        unused = {*self.shorter, *self.added} - self.used
        assert not (whole and unused), f'no longer on the page: {unused}'

    def _shorten(self, text: str) -> str:
        for long, short in self.shorter.items():
            if long in text:
                self.used.add(long)
                text = text.replace(long, short)
        return text

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
        if assignment:
            self.variables[assignment[1]] = self._expand(assignment[2])
            return
        words = shlex.split(self._expand(line), comments=True)
        for part, arguments in self.added.items():
            if part in line:
                self.used.add(part)
                words += arguments
        words = [name for word in words for name in _glob(word)]
        environment = {}
        while _ASSIGNMENT.fullmatch(words[0]):
            name, value = words.pop(0).split('=', 1)
            environment[name] = value
        if words[0] == 'mim':
            words = _program_of_mim(words)
        if words[0] == 'python':
            self._run_program(words[1:])
        else:
            subprocess.run(words, check=True, timeout=900, env={
                **os.environ, 'PYTHON': sys.executable,
                'PYTHONPATH': str(ROOT), **environment})

    def _expand(self, text: str) -> str:
        return string.Template(text).safe_substitute(self.variables)

    def _run_program(self, words: list[str]) -> None:
        """What ``python WORDS`` does; the tool's own modules go after."""
        if words[0] == '-c':
            exec(compile(words[1], 'command', 'exec'), {})
            return
        is_module = words[0] == '-m'
        arguments = words[1:] if is_module else words
        with self.monkeypatch.context() as patch:
            patch.setattr(sys, 'argv', arguments)
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
                tools = str(ROOT / 'tools')
                for name in {*sys.modules} - before:
                    file = getattr(sys.modules[name], '__file__', None)
                    if file and os.path.realpath(file).startswith(tools):
                        del sys.modules[name]
        self.forget()


def shell_lines(text: str) -> list[str]:
    """Commands of a block, continued ones joined, without comments."""
    joined = re.sub(r'\\\n\s*', ' ', text).split('\n')
    return [line.strip() for line in joined
            if line.strip() and not line.startswith('#')]


def _glob(word: str) -> list[str]:
    if '*' not in word or '=' in word:
        return [word]
    return sorted(map(str, Path().glob(word))) or [word]


def _program_of_mim(words: list[str]) -> list[str]:
    """The script that ``mim run mmdet NAME ...`` starts."""
    _, command, package, name, *arguments = words
    assert command == 'run', words
    spec = importlib.util.find_spec(package)
    root = Path(spec.origin).parent / '.mim' / 'tools'
    file, = root.rglob(f'{name}.py')
    return ['python', str(file), *arguments]
