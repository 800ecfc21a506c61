# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The checkpoint of a tiny encoder."""
import pytest

from ..helpers.checkpoints import MODEL, settings_of, write_checkpoint


@pytest.fixture(scope='session')
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp('checkpoint') / 'epoch_1.pth'
    write_checkpoint(path, MODEL, settings_of())
    return str(path)
