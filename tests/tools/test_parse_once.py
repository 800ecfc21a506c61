# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The compiler that a build of mmcv is given: common headers parsed once."""
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GCC = """
echo "$@" >> {log}
case "$*" in *c++-header*{no_header}) exit 1;; esac
case "$*" in *-include*{no_include}) exit 1;; esac
while [ $# -gt 0 ]; do case "$1" in -o) : > "$2";; esac; shift; done"""


def compile_with(tmp_path, *arguments, no_header='NEVER', no_include='NEVER'):
    """Compile through the stand-in; return its calls and the status."""
    log = tmp_path / 'log'
    log.unlink(missing_ok=True)
    compiler = tmp_path / 'gcc'
    compiler.write_text('#!/bin/sh\n' + GCC.format(
        log=log, no_header=no_header, no_include=no_include))
    compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)
    (tmp_path / 'headers').mkdir(exist_ok=True)
    code = subprocess.call(
        [sys.executable, ROOT / 'tools' / 'env' / 'parse_once.py',
         *arguments], env=dict(os.environ, QBHEAT_CXX=str(compiler),
                               QBHEAT_HEADERS=str(tmp_path / 'headers')))
    return log.read_text().splitlines(), code


def command(tmp_path, name, *flags):
    return ('-MMD', '-MF', f'{name}.d', *flags, '-c', f'{name}.cpp', '-o',
            str(tmp_path / f'{name}.o'))


def test_headers_are_parsed_once_for_the_same_flags(tmp_path):
    first, code = compile_with(tmp_path, *command(tmp_path, 'a', '-DX'))
    assert code == 0 and len(first) == 2
    assert first[0].startswith('-DX -x c++-header')
    assert first[1].startswith('-include') and 'a.cpp' in first[1]
    assert len(compile_with(tmp_path, *command(tmp_path, 'b', '-DX'))[0]) == 1
    assert len(compile_with(tmp_path, *command(tmp_path, 'b', '-DY'))[0]) == 2


@pytest.mark.parametrize('fault', ['no_header', 'no_include'])
def test_a_compiler_that_takes_none_is_called_as_it_is(tmp_path, fault):
    asked = command(tmp_path, 'a')
    for _ in range(2):
        calls, code = compile_with(tmp_path, *asked, **{fault: ''})
        assert code == 0
        assert calls[-1] == ' '.join(asked)


def test_what_compiles_nothing_is_passed_on(tmp_path):
    assert compile_with(tmp_path, '-v') == (['-v'], 0)
    link = ('-shared', 'a.o', '-o', str(tmp_path / '_ext.so'))
    assert compile_with(tmp_path, *link) == ([' '.join(link)], 0)
