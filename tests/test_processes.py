# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Work in several processes comes back in order, or says why not."""
import os

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
    with pytest.raises(UserError, match='was killed'):
        [*map_in_processes(eval, [WHO, LEAVE, WHO], 2, chunk=1)]
