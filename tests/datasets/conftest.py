"""What data sets log."""
import pytest


@pytest.fixture
def logged(monkeypatch):
    """The lines that data sets and transforms log."""
    lines = []
    for module in ('image_folder', 'fitting', 'transforms'):
        monkeypatch.setattr(f'qbheat_mm.datasets.{module}.print_log',
                            lambda line, **kwargs: lines.append(line))
    return lines
