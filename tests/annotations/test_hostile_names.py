# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Names of files, classes and folders are data: nothing of them is run."""
import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config
from mmpretrain.registry import DATASETS
from PIL import Image

from qbheat_mm.apis import prepare_boxes, prepare_classes
from qbheat_mm.errors import UserError

#: What runs leaves a file of this name in the current folder.
CODE = "open('ran', 'w').close()"
NAMES = [
    f'x\n{CODE}\n#', f"'''\n{CODE}\n'''", f"')\n{CODE}\n('", f'"""\n{CODE}#',
    f"'+{CODE}+'", f'\\\n{CODE}', f'\r{CODE}\r', f'x\u2028{CODE}\u2028',
    f'x\x0c\x0b{CODE}', '{{ fileDirname }}', '{{fileBasename}}',
    '{{$HOME:/tmp}}', '{{_base_.x}}', '{{ _base_.model.type }}', '{name}',
    '%s%(a)s', '$HOME', '\\N{BULLET}', '\\x41', 'a\\', "it's", '"',
    '<script>', '&amp;', '--out', '~', '*?[a]', 'a  b', ' a', 'a ', '-',
    'None', '\ufefftext', '\u202eevil', '照片', 'é', 'e\u0301', '_base_',
    "__import__('os')", '@a', 'delete', '_delete_', '${a}', 'a.b', 'a;b']



def composed(names):
    return sorted({unicodedata.normalize('NFC', name) for name in names})


#: Configs of mmengine cannot hold them.
UNHELD = ('"', '\\', '{{', '\r', '\n')


def write_image(path: Path, seed: int) -> None:
    pixels = np.random.default_rng(seed).integers(0, 255, (3, 4, 3), np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).resize((40, 30), Image.NEAREST).save(path, 'jpeg')


def write_coco(root: Path, files: list, classes: list) -> None:
    content = dict(images=[], annotations=[], categories=[
        dict(id=number, name=name) for number, name in enumerate(classes)])
    for number, name in enumerate(files):
        write_image(root / name, number)
        content['images'].append(dict(
            id=number, file_name=name, width=40, height=30))
        for category in range(len(classes)):
            content['annotations'].append(dict(
                id=len(content['annotations']), image_id=number,
                category_id=category, bbox=[2, 3, 20, 10]))
    (root / 'labels.json').write_text(json.dumps(content))


def load(config):
    """Load the config as tools do, and check that nothing was run."""
    cfg = Config.fromfile(config)
    assert not Path('ran').exists()
    return cfg


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check_boxes(root, out, files, classes):
    report = prepare_boxes(str(root), str(out))
    assert report.account.skipped('images') == 0
    cfg = load(report.config)
    found = set()
    for split in ('train', 'val'):
        dataset = cfg[f'{split}_dataloader'].dataset
        while 'dataset' in dataset:
            dataset = dataset.dataset
        assert sorted(dataset.metainfo.classes) == composed(classes)
        folder = Path(dataset.get('data_root') or '',
                      dataset.data_prefix.img)
        ann_file = Path(dataset.get('data_root') or '', dataset.ann_file)
        content = json.loads(ann_file.read_text('utf-8'))
        for image in content['images']:
            assert (folder / image['file_name']).is_file()
            found.add((folder / image['file_name']).resolve())
    assert found == {(root / file).resolve() for file in files}
    str(report)


@pytest.mark.mmdet
@pytest.mark.parametrize('folder', range(0, len(NAMES), 6))
def test_files_and_folders(folder, here):
    """In one folder name, and in those of many files."""
    root = here / f'export {NAMES[folder]}' / 'pets'
    files = [f'{name}/{i}{name}.jpg' for i, name in enumerate(NAMES)
             if '/' not in name]
    write_coco(root, files, ['cat', 'dog'])
    check_boxes(root, here / 'out', files, ['cat', 'dog'])


@pytest.mark.mmdet
def test_names_of_classes(here):
    names = [name for name in NAMES if name == name.strip()]
    files = [f'{i}.jpg' for i in range(6)]
    write_coco(here / 'pets', files, names)
    check_boxes(here / 'pets', here / 'out', files, names)


@pytest.mark.parametrize('text', UNHELD)
def test_output_folders_that_configs_cannot_hold(text, here):
    write_coco(here / 'pets', [f'{i}.jpg' for i in range(6)], ['cat', 'dog'])
    out = here / f'out{text}x'
    with pytest.raises(UserError, match='^--out .* cannot hold'):
        prepare_boxes(str(here / 'pets'), str(out))
    assert not out.exists()


@pytest.mark.mmdet
@pytest.mark.parametrize('name', ['--out', '-', 'e\u0301', '${a}', "it's",
                                  ' a', 'a ', '\u202eevil', '%s%(a)s'])
def test_output_folder(name, here):
    files = [f'{i}.jpg' for i in range(6)]
    write_coco(here / 'pets', files, ['cat', 'dog'])
    check_boxes(here / 'pets', here / f'out{name}', files, ['cat', 'dog'])


@pytest.mark.parametrize('copy', [False, True])
def test_folders_of_classes(copy, here):
    """mmpretrain reads each class under its name, and all images."""
    names = [name for name in NAMES if '/' not in name]
    for i, name in enumerate(names):
        for number in range(3):
            write_image(here / 'pets' / name / f'{number}{name}.jpg',
                        3 * i + number)
    report = prepare_classes(str(here / 'pets'), str(here / 'out'), copy=copy)
    assert report.account.skipped('images') == 0
    cfg = load(report.config)
    number = 0
    for split in ('train', 'val'):
        dataset = DATASETS.build(cfg[f'{split}_dataloader'].dataset)
        assert [*dataset.CLASSES] == composed(names)
        number += len(dataset)
    assert number == 3 * len(names)
