# Copyright (c) QB-Heat MM authors. All rights reserved.
"""No test sees what another has left behind."""
import pytest
from mmengine.utils import ManagerMixin


def _managers(kind: type = ManagerMixin) -> list[type]:
    """Every class whose instances mmengine keeps by name."""
    return [kind] + [m for sub in kind.__subclasses__()
                     for m in _managers(sub)]


@pytest.fixture(autouse=True)
def forget_other_runs():
    """Drop mmengine's global scopes, visualizers and logs of earlier runs.

    They are kept by names that end in the second of a run's start: a test
    that begins in the same second as another would get the other's
    visualizer, and one that names no scope would get the other's scope.
    """
    yield
    for manager in _managers():
        manager._instance_dict.clear()
