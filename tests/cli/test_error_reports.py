# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How a tool ends on an error."""
import json
import sys

import pytest
from torch.utils.data import DataLoader

from qbheat_mm.cli import report_user_errors
from qbheat_mm.errors import UserError


def fail(error):
    def main():
        raise error
    return main


class Broken:

    def __len__(self):
        return 1

    def __getitem__(self, index):
        raise UserError("image 'a.jpg' is cut")


@pytest.mark.parametrize('workers', [0, 1])
def test_a_user_error_is_one_line(workers):
    with pytest.raises(SystemExit) as end:
        report_user_errors(
            lambda: next(iter(DataLoader(Broken(), num_workers=workers))))
    assert end.value.code == "error: image 'a.jpg' is cut"


@pytest.mark.skipif(sys.version_info < (3, 11), reason='has no notes')
def test_other_errors_keep_their_traceback_and_name_the_command(monkeypatch):
    monkeypatch.setattr(sys, 'argv', ['tools/train.py', 'a.py', 'x=a b'])
    with pytest.raises(KeyError) as error:
        report_user_errors(fail(KeyError('a defect')))
    assert error.value.__notes__ == [
        "while running tools/train.py a.py 'x=a b': KeyError: 'a defect'"]


def test_torchrun_gets_the_line(monkeypatch, tmp_path):
    file = tmp_path / 'error.json'
    monkeypatch.setenv('TORCHELASTIC_ERROR_FILE', str(file))
    with pytest.raises(SystemExit) as end:
        report_user_errors(fail(UserError('x')))
    assert end.value.code == 1
    assert json.loads(file.read_text())['message'] == 'error: x'
