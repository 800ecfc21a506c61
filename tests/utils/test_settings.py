"""Settings name a class in three ways, and all of them are read."""
import pytest
from mmengine.config import Config
from mmpretrain.models import ImageClassifier

from qbheat_mm.utils.settings import type_name


@pytest.mark.parametrize('kind, name', [
    *((kind, 'ImageClassifier') for kind in (
        'ImageClassifier', 'mmpretrain.ImageClassifier',
        'mmpretrain.models.ImageClassifier', ImageClassifier)), (None, '')])
def test_every_spelling_is_read(kind, name):
    assert type_name(dict(type=kind)) == name


def test_configurations_of_the_new_style_are_read(tmp_path):
    path = tmp_path / 'config.py'
    path.write_text('from mmpretrain.models import ImageClassifier\n'
                    'model = dict(type=ImageClassifier)\n')
    cfg = Config.fromfile(path, lazy_import=True)
    assert type_name(cfg.model) == 'ImageClassifier'
