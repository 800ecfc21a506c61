# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Names of classes, files and folders are data, never code."""
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mmengine.config import Config

from qbheat_mm.annotations.configs import quote, write_boxes_config
from qbheat_mm.annotations.training_plan import TrainingPlan
from qbheat_mm.apis import prepare_boxes, prepare_classes
from qbheat_mm.errors import UserError

from ..helpers.exports import (
    coco,
    read_boxes,
    write_image,
    write_json,
    write_numbered,
)

PLAN = TrainingPlan(1, (640, 480), (512, 384), 32., 600, 150, 0)
HOSTILE = ['{{ fileDirname }}', '{{$HOME:x}}', '{{ _base_.model }}', "it's",
           'a"b', '"""', "'''", 'back\\slash', '\\x7b', 'new\nline',
           "a\nraise SystemExit('code')", '#', '{', '}}', 'ü 零件', '%s {0}']


def load(out, name):
    return Config.fromfile(out / name, import_custom_modules=False)


@pytest.mark.mmdet
def test_hostile_names_survive(tmp_path):
    root = tmp_path / "it's {{ fileBasename }}\nimport os"
    names = [f'{name}.jpg'.replace('/', '') for name in HOSTILE]
    write_numbered(root, names)
    content = coco(names)
    content['categories'] = [dict(id=i, name=name)
                             for i, name in enumerate(HOSTILE)]
    content['annotations'] = [
        dict(image_id=i, category_id=j, bbox=[4, 6, 20, 16])
        for i in range(len(names)) for j in range(len(HOSTILE))]
    write_json(root / 'labels.json', content)
    prepare_boxes(str(root), str(tmp_path / "o'ut {1}"))
    data = load(tmp_path / "o'ut {1}", 'boxes.py').data
    assert data.metainfo.classes == tuple(HOSTILE)
    assert data.data_prefix.img == f'{root}/'
    assert data.data_root == f"{tmp_path}/o'ut {{1}}/"
    assert len(read_boxes(tmp_path / "o'ut {1}")) == len(names)


@pytest.mark.mmdet
@given(st.lists(st.text(st.characters(codec='utf-8')), min_size=1,
                max_size=3))
def test_any_text_is_the_same_after_loading(tmp_path_factory, names):
    file = tmp_path_factory.mktemp('config') / 'boxes.py'
    write_boxes_config(file, 'retinanet', names, names[0], PLAN, 'val')
    data = load(file.parent, 'boxes.py').data
    assert data.metainfo.classes == tuple(names)
    assert data.data_prefix.img == names[0]
    assert '{{' not in quote(names[0])


@pytest.mark.parametrize('name', ['a"b', 'a\\b', '{{ x }}', 'a\nb'])
def test_folders_that_configs_cannot_hold_are_refused(name, tmp_path):
    write_numbered(tmp_path / 'pets', ['a.jpg', 'b.jpg'])
    write_json(tmp_path / 'pets/labels.json', coco(['a.jpg', 'b.jpg']))
    with pytest.raises(UserError, match='choose another folder'):
        prepare_boxes(str(tmp_path / 'pets'), str(tmp_path / name))


def test_hostile_classes_are_folders(tmp_path):
    names = sorted(name for name in HOSTILE if '/' not in name)
    for i in range(3 * len(names)):
        write_image(tmp_path / f'in/{i}.png', i)
    (tmp_path / 'list.csv').write_text('file,class\n' + ''.join(
        f'{i}.png,{json.dumps(name)[1:-1]}\n' if name.isalnum() else
        f'{i}.png,"{name.replace(chr(34), 2 * chr(34))}"\n'
        for i, name in enumerate(3 * names)))
    prepare_classes(str(tmp_path / 'list.csv'), str(tmp_path / 'out'),
                    images=str(tmp_path / 'in'))
    assert sorted(path.name for path in (tmp_path / 'out/train').iterdir()
                  ) == names
    data = load(tmp_path / 'out', 'classes.py').data
    assert data.dataset.data_root == f'{tmp_path}/out/'
