# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Steps are taken in turn, and the first rounds do not count."""
from qbheat_mm.utils import time_in_turn


def test_steps_are_taken_in_turn():
    taken = []
    steps = {name: lambda name=name: taken.append(name) for name in 'ab'}
    times = time_in_turn(steps, 2, 'cpu', warmups=1)
    assert taken == [*'ababab']
    assert [len(seconds) for seconds in times.values()] == [2, 2]
    assert all(0 <= s < 60 for seconds in times.values() for s in seconds)
    taken.clear()
    time_in_turn(steps, 1, 'cpu')
    assert len(taken) == 2 * (1 + 3)
