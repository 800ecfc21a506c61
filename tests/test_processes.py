# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Work in several processes comes back in order, or says why not."""
import os
import time
from multiprocessing import active_children
from multiprocessing.process import BaseProcess

import numpy as np
import pytest
from PIL import Image

from qbheat_mm.annotations import size_loader
from qbheat_mm.datasets import LoadNamedImageFromFile
from qbheat_mm.errors import UserError
from qbheat_mm.processes import map_in_processes

#: What other processes evaluate: they know no module of a test.
WHO, LEAVE = '__import__("os").getpid()', '__import__("os")._exit(1)'


@pytest.mark.parametrize('processes', [1, 2])
def test_pictures_are_measured_in_order(tmp_path, processes):
    sizes = [(20 + i, 10) for i in range(20)]
    files = [str(tmp_path / f'{i}.png') for i in range(len(sizes))]
    for file, (width, height) in zip(files, sizes):
        Image.fromarray(np.zeros((height, width, 3), np.uint8)).save(file)
    measure = size_loader(LoadNamedImageFromFile())
    assert [*map_in_processes(measure, files, processes, chunk=3)] == sizes
    (tmp_path / '13.png').write_bytes(b'no image')
    with pytest.raises(UserError, match=r'13\.png'):
        [*map_in_processes(measure, files, processes, chunk=3)]


def test_work_is_done_by_others():
    assert os.getpid() not in {*map_in_processes(eval, [WHO] * 8, 2, chunk=1)}


def test_a_process_that_is_killed_is_told():
    with pytest.raises(UserError, match='was killed.*run again'):
        [*map_in_processes(eval, [WHO, LEAVE, WHO], 2, chunk=1)]


def test_all_are_there_before_there_is_work(monkeypatch):
    """Python waits for ever for one that begins as another is killed."""
    assert len([*map_in_processes(eval, [WHO] * 4, 2, chunk=1)]) == 4
    others = {*active_children()}
    start, started = BaseProcess.start, []  # quick, from now on

    def start_slowly(process):
        time.sleep(0.5)
        start(process)
        time.sleep(0.5)
        started.append(process)

    monkeypatch.setattr(BaseProcess, 'start', start_slowly)
    with pytest.raises(UserError, match='was killed'):
        [*map_in_processes(eval, [LEAVE, WHO, WHO], 3, chunk=1)]
    assert len(started) == 3
    assert {*active_children()} == others, 'it is left behind'


def test_where_one_cannot_be_begun_the_others_end(monkeypatch):
    others, start, asked = {*active_children()}, BaseProcess.start, []

    def start_one(process):
        asked.append(process)
        if len(asked) > 1:
            raise BlockingIOError('no more processes')
        start(process)

    monkeypatch.setattr(BaseProcess, 'start', start_one)
    with pytest.raises(BlockingIOError, match='no more processes'):
        [*map_in_processes(eval, [WHO] * 3, 3, chunk=1)]
    assert {*active_children()} == others


def test_no_more_begin_than_have_work():
    assert {*map_in_processes(eval, [WHO] * 8, 4, chunk=8)} == {os.getpid()}
    assert len({*map_in_processes(eval, [WHO] * 8, 9, chunk=4)}) <= 2


def test_what_others_cannot_import_is_named(tmp_path, monkeypatch):
    (tmp_path / 'only_here.py').write_text('def function(item): pass\n')
    monkeypatch.syspath_prepend(tmp_path)
    function = __import__('only_here').function
    (tmp_path / 'only_here.py').unlink()
    with pytest.raises(ModuleNotFoundError, match='only_here'):
        [*map_in_processes(function, [1, 2], 2, chunk=1)]
