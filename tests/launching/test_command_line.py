# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Arguments of the tools that cannot be."""
from argparse import ArgumentParser

import pytest

from qbheat_mm.launching import count


def test_counts_are_positive_integers(capsys):
    parser = ArgumentParser()
    parser.add_argument('--repeats', type=count)
    assert parser.parse_args(['--repeats', '12']).repeats == 12
    for text in ('0', '-1', '1.5', 'two', '', '١'):
        with pytest.raises(SystemExit) as end:
            parser.parse_args([f'--repeats={text}'])
        assert end.value.code == 2
        last = capsys.readouterr().err.strip().split('\n')[-1]
        assert f"--repeats: '{text}' is not a positive integer" in last
