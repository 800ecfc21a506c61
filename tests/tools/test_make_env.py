# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The decisions of ``make env``; the making itself needs a network."""
import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / 'requirements' / 'lock.txt'
CHOICES = ('TORCH', 'TORCHVISION', 'QBHEAT_SYSTEM_TORCH')


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch, tmp_path):
    for name in CHOICES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('QBHEAT_CACHE', str(tmp_path / 'cache'))
    monkeypatch.syspath_prepend(str(ROOT / 'tools' / 'env'))


@pytest.fixture
def settings():
    import settings
    return settings


# What is to be installed


def test_another_torch_leaves_its_torchvision_to_the_resolver(
        settings, monkeypatch):
    monkeypatch.setenv('TORCH', '2.11.0')
    pins = settings.Settings.read({}).pins(LOCK)
    assert pins['torch'] == '2.11.0' and pins['torchvision'] == ''
    monkeypatch.setenv('TORCHVISION', '0.26.0')
    assert settings.Settings.read({}).pins(LOCK)['torchvision'] == '0.26.0'
    assert pins['mmcv'] == '2.1.0'


def test_the_machines_own_torch_holds_the_toolboxes_alone(
        settings, monkeypatch):
    monkeypatch.setenv('QBHEAT_SYSTEM_TORCH', '1')
    pins = settings.Settings.read({}).pins(LOCK)
    assert 'torch' not in pins and 'torchvision' not in pins
    assert pins['numpy'] == '' and pins['mmdet'] == '3.3.0'
    monkeypatch.setenv('TORCH', '2.11.0')
    with pytest.raises(Exception, match='leave out TORCH'):
        settings.Settings.read({}).pins(LOCK)


def test_choices_are_kept_until_named_again(settings, monkeypatch):
    kept = dict(settings=dict(torch='2.11.0', torchvision='',
                              system_torch=''))
    assert settings.Settings.read(kept).torch == '2.11.0'
    monkeypatch.setenv('TORCH', '2.12.0')
    assert settings.Settings.read(kept).torch == '2.12.0'
    monkeypatch.setenv('TORCH', '')  # back to the lock's
    assert settings.Settings.read(kept).pins(LOCK) == settings.Settings(
    ).pins(LOCK)


# When there is nothing to do


@pytest.fixture
def made(settings, tmp_path):
    """A project and an environment, as ``make env`` leaves them behind."""
    root = tmp_path / 'project'
    (root / 'qbheat_mm' / '.mim' / 'configs').mkdir(parents=True)
    shutil.copytree(ROOT / 'requirements', root / 'requirements')
    venv = root / '.venv'
    site = venv / 'lib' / 'python3.11' / 'site-packages'
    for name, version in {**settings.Settings().pins(LOCK),
                          'qbheat_mm': '0.1.0'}.items():
        (site / f'{name.replace("-", "_")}-{version}.dist-info').mkdir(
            parents=True)
    (site / 'mmcv').mkdir()
    (site / 'mmcv' / '_ext.cpython-311.so').touch()
    choices = settings.Settings()
    settings.write_stamp(venv, choices,
                         settings.fingerprint(root, venv, choices))
    return root, venv, site


def up_to_date(settings, root, venv):
    choices = settings.Settings.read(settings.read_stamp(venv))
    return settings.is_up_to_date(root, venv, choices)


def test_a_made_environment_is_up_to_date(settings, made):
    root, venv, _ = made
    assert up_to_date(settings, root, venv)


@pytest.mark.parametrize('change', [
    lambda root, site: (site / 'mmdet-3.3.0.dist-info').rmdir(),
    lambda root, site: (site / 'mmdet-3.3.0.dist-info').rename(
        site / 'mmdet-3.2.0.dist-info'),
    lambda root, site: (site / 'qbheat_mm-0.1.0.dist-info').rmdir(),
    lambda root, site: (site / 'mmcv' / '_ext.cpython-311.so').unlink(),
    lambda root, site: (site / 'onedl_mmcv-2.3.6.dist-info').mkdir(),
    lambda root, site: (root / 'qbheat_mm' / '.mim' / 'configs').rmdir(),
    lambda root, site: (root / 'requirements' / 'lock.txt').write_text(
        LOCK.read_text() + 'tqdm==4.70.0\n'),
    lambda root, site: (root / 'setup.py').write_text('# another'),
    lambda root, site: os.environ.update(TORCH='2.11.0'),
], ids=['gone', 'other-version', 'project', 'operators', 'other-family',
        'mim', 'lock', 'setup', 'choice'])
def test_any_change_makes_it_out_of_date(settings, made, change, monkeypatch):
    monkeypatch.setenv('TORCH', '')  # restored after the test
    root, venv, site = made
    change(root, site)
    assert not up_to_date(settings, root, venv)


def test_an_unfinished_environment_is_not_up_to_date(settings, made):
    root, venv, _ = made
    settings.write_stamp(venv, settings.Settings(), '')
    assert not up_to_date(settings, root, venv)
