"""Settings name a class in three ways, and all of them are read."""
import pytest
from mmengine.config import Config
from mmpretrain.models import ImageClassifier

from qbheat_mm.utils.settings import type_name


@pytest.mark.parametrize('kind', [
    'ImageClassifier', 'mmpretrain.ImageClassifier',
    'mmpretrain.models.ImageClassifier', ImageClassifier])
def test_every_spelling_is_read(kind):
    assert type_name(dict(type=kind)) == 'ImageClassifier'


def test_configurations_of_the_new_style_are_read(tmp_path):
    path = tmp_path / 'config.py'
    path.write_text('from mmpretrain.models import ImageClassifier\n'
                    'model = dict(type=ImageClassifier)\n')
    cfg = Config.fromfile(path, lazy_import=True)
    assert type_name(cfg.model) == 'ImageClassifier'


@pytest.mark.parametrize('settings', [{}, dict(type=None)])
def test_no_type_has_no_name(settings):
    assert type_name(settings) == ''
