# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Exports of each tool become data that the strict loader accepts."""
import json
import re
import shutil

import pytest
from mmengine.config import Config
from mmengine.runner import Runner

from qbheat_mm.annotations.formats import holds_boxes
from qbheat_mm.apis import prepare_boxes
from qbheat_mm.datasets.coco_check import check_images, load_coco
from qbheat_mm.errors import UserError

from ..helpers.exports import (
    BOXES,
    CASES,
    CLASSES,
    NAMES,
    STEMS,
    coco,
    number_box,
    words,
    write_coco,
    write_each,
    write_image,
    write_json,
    write_labelme,
    write_numbered,
)
from ..helpers.exports import prepare as prepare_pets
from ..helpers.shipped import shrink
from ..helpers.tools import run_tool


def prepare(folder, **options):
    """Prepare the export ``pets`` in a folder."""
    return prepare_boxes(str(folder / 'pets'), str(folder / 'out'), **options)


def read(out):
    """The written annotations, checked as before training."""
    found = {}
    for file in sorted((out / 'annotations').iterdir()):
        content, report = load_coco(str(file), CLASSES, masks=True)
        config = {}
        exec((out / 'boxes.py').read_text().split('train_dataloader')[0].
             replace('{{ fileDirname }}', str(out)), config)
        check_images(content, config['data']['data_prefix']['img'], report)
        assert report.warnings == []
        found[file.stem] = content
    return found


@pytest.mark.parametrize('name', CASES)
def test_every_image_and_box_is_accounted_for(name, tmp_path):
    case = CASES[name]
    case.write(tmp_path / 'pets')
    printed = str(prepare(tmp_path))
    images = len(STEMS) * len(case.folders)
    assert printed.startswith(f'{case.source}: {images} images, 2 classes')
    lines = [line.split() for line in printed.splitlines()]
    for kind, number, lost in (('images', images, 0),
                               ('boxes', case.boxes, case.skipped)):
        row = next(line for line in lines if line[:1] == [kind])
        assert row[1:3] == [str(number + lost), str(lost)]
        assert sum(map(int, row[3:])) == number
    for line in case.corrected:
        assert line in printed
    found = read(tmp_path / 'out')
    assert {'train', 'val'} <= {*found}
    boxes = [box for each in found.values() for box in each.annotations]
    assert len(boxes) == case.boxes
    assert sum(len(each.images) for each in found.values()) == images
    for category_id, expected in enumerate(BOXES, 1):
        of_category = [box.bbox for box in boxes
                       if box.category_id == category_id]
        assert pytest.approx(expected, abs=1e-6) in of_category
    assert any(box.iscrowd for box in boxes) == (name == 'voc')


@pytest.mark.parametrize('name', CASES)
def test_exports_of_boxes_are_known(name, tmp_path):
    CASES[name].write(tmp_path)
    assert holds_boxes(str(tmp_path))


@pytest.mark.parametrize('text', ['', 'cat\ndog\n'])
def test_folders_of_classes_hold_no_boxes(text, tmp_path):
    """Even if a list of classes is beside them."""
    for name in CLASSES:
        write_image(tmp_path / name / 'a.png', 0)
    if text:
        (tmp_path / 'classes.txt').write_text(text)
    (tmp_path / 'labels.csv').write_text('image,label\ncat/a.png,cat\n')
    (tmp_path / 'other.json').write_text('{"images": []}')
    assert not holds_boxes(str(tmp_path))
    assert not holds_boxes(str(tmp_path / 'labels.csv'))


@pytest.mark.parametrize(
    'detector', ['gfl', 'retinanet', 'mask-rcnn', 'mf-dec'])
def test_two_commands_train(detector, tmp_path, capfd, forget):
    pytest.importorskip('mmcv.ops')
    CASES['plain'].write(tmp_path / 'pets')
    out = tmp_path / 'out'
    run_tool('prepare_boxes.py', tmp_path / 'pets', '--out', out,
             '--detector', detector, '--copy')
    printed = capfd.readouterr().out
    assert f'train.py {out}/boxes.py' in printed
    shutil.rmtree(tmp_path / 'pets')  # the images were copied
    run_tool('check_data.py', out / 'boxes.py')
    assert capfd.readouterr().out.endswith('\nno errors\n')
    forget()
    cfg = shrink(Config.fromfile(out / 'boxes.py'), out, tmp_path / 'work')
    if detector == 'mf-dec':
        cfg.train_cfg.max_epochs = 1
    else:
        cfg.train_cfg.update(max_iters=3, val_interval=3)
        cfg.param_scheduler = None
    runner = Runner.from_cfg(cfg)
    runner.train()
    assert list((tmp_path / 'work').glob('*_[13].pth'))
    assert {'train/loss', 'val/time'} <= runner.message_hub.log_scalars.keys()


def change(**values):
    def apply(content):
        for kind, (number, more) in values.items():
            for each in content[kind][:number]:
                each.update(more)
    return apply


def add_category(content):
    content['categories'].append(dict(id=0, name='red'))


def two_images_with_one_id(content):
    content['images'][1]['id'] = content['images'][0]['id']


AMBIGUOUS = {
    'two_images': (two_images_with_one_id,
                   "images 'photoa.jpg' and 'photob.jpg' have the same id 0",
                   'give each its own'),
    'two_names': (add_category, "id 0 is both 'cat' and 'red'", '--classes'),
    'no_classes': (lambda content: content['categories'].clear(),
                   "are of 'category_id 0'", '--drop-class'),
    'unlisted': (change(annotations=(3, dict(category_id=9))),
                 "are of 'category_id 9'", '--drop-class'),
    'crowds': (change(annotations=(5, dict(iscrowd=1))),
               '5 of 12 boxes are crowds', '--keep-crowds'),
    'missing': (change(images=(6, dict(file_name='elsewhere/x.jpg'))),
                '6 of 6 images are missing', '--images'),
    'other_size': (change(images=(2, dict(width=640))),
                   "photoa.jpg' has another size, (64, 48)", '--images'),
    'corners': (change(annotations=(9, dict(bbox=[40, 20, 60, 44]))),
                '9 of 12 boxes (e.g. [40.0, 20.0, 60.0, 44.0])', 'corners'),
    'no_boxes': (lambda content: content['annotations'].clear(),
                 'no box to train on', ''),
    'fractions': (change(annotations=(12, dict(bbox=[.1, .1, .5, .5]))),
                  '12 of 12 boxes', 'fractions'),
    'no_number': (change(annotations=(1, dict(bbox=['a', 0, 1, 1]))),
                  'got `str` - at `$.annotations[0].bbox[0]`',
                  'correct it'),
}


@pytest.mark.parametrize('name', AMBIGUOUS)
def test_ambiguous_values_are_refused_with_a_way_out(name, tmp_path):
    apply, value, way = AMBIGUOUS[name]
    write_coco(tmp_path / 'pets', apply)
    with pytest.raises(UserError) as error:
        prepare_boxes(str(tmp_path / 'pets'), str(tmp_path / 'out'))
    assert value in str(error.value) and way in str(error.value)
    assert not (tmp_path / 'out').exists()


def test_options_decide(tmp_path):
    def apply(content):
        add_category(content)
        change(annotations=(5, dict(iscrowd=1)))(content)
    write_coco(tmp_path / 'pets', apply)
    file = tmp_path / 'pets/labels.json'
    file.write_text(file.read_text(), 'utf-16')  # as PowerShell does
    (tmp_path / 'pets/images').rename(tmp_path / 'photos')
    report = prepare(tmp_path, classes=['dog', 'cat'], keep_crowds=False,
                     images=str(tmp_path / 'photos'))
    content = json.loads((tmp_path / 'out/annotations/val.json').read_text())
    assert [each['name'] for each in content['categories']] == ['dog', 'cat']
    assert not any(each['iscrowd'] for each in content['annotations'])
    count = report.account['corrected', 'crowds that became objects']
    assert count.number == 5
    with pytest.raises(UserError, match='exists'):  # it may have been edited
        prepare_boxes(str(tmp_path / 'pets'), str(tmp_path / 'out'))


def test_losses_are_counted_by_reason(tmp_path):
    def change(content):
        boxes = content['annotations']
        boxes[2]['bbox'] = [50, 6, 20, 9]
        boxes += [dict(boxes[0], bbox=bbox) for bbox in (
            [4, 6, 0, 9], [70, 6, 9, 9], [4, 6, -3, 9])]
        boxes += [boxes[0], dict(boxes[0], image_id=77),
                  dict(boxes[0], category_id=None)]
        content['images'][4]['file_name'] = 'gone.jpg'
    write_coco(tmp_path / 'pets', change)
    (tmp_path / f'pets/images/{STEMS[5]}.jpg').write_bytes(b'no image')
    printed = ' '.join(str(prepare(
        tmp_path, drop_classes=['category_id None'])).split())
    for line in ('images 6 2', 'boxes 18 9',
                 "1 boxes skipped of class 'category_id None'",
                 '2 boxes skipped thinner than a pixel',
                 '1 boxes skipped outside of their image',
                 '1 boxes skipped of images that are not listed',
                 '1 images skipped whose file is missing, or one of several '
                 'of this name gone.jpg',
                 '1 images skipped that cannot be read',
                 '4 boxes skipped of skipped images',
                 '1 corrected boxes that reached beyond their image'):
        assert line in printed, line


@pytest.mark.parametrize('form', ['coco', 'voc', 'labelme', 'yolo'])
def test_images_without_a_box_are_counted_by_split(form, tmp_path):
    """Nobody may have annotated them yet."""
    root = tmp_path / 'pets'
    names = [f'{split}/{name}' for split in ('train', 'val')
             for name in NAMES]
    write_numbered(root, names)
    labeled = [*names[:4], *names[6:9]]
    if form == 'coco':
        content = coco(names)
        ids = [names.index(name) for name in labeled]
        content['annotations'] = [
            box for box in content['annotations'] if box['image_id'] in ids]
        write_json(root / 'labels.json', content)
    else:
        write_each(form, root, labeled)
    for name in {*names} - {*labeled}:
        path = root / name
        if form == 'voc':
            path.with_suffix('.xml').write_text(
                f'<annotation><filename>{path.name}</filename></annotation>')
        elif form == 'labelme':
            write_labelme(path.with_suffix('.json'), path.name, [])
        elif form == 'yolo':
            path.with_suffix('.txt').write_text('')
    report, boxes = prepare_pets(tmp_path)
    assert len(boxes) == 12
    assert 'images without a box 5 2 3' in words(report)


@pytest.mark.parametrize('form', ['coco', 'voc', 'labelme'])
@pytest.mark.parametrize('names', [
    {'classes.txt': 'cat\ndog\n'}, {'obj.names': 'cat\n'},
    {'data.yaml': 'names: [cat]\n'},
    {'classes.txt': 'cat\n', 'a.txt': '', 'train.txt': 'a\nb\nc\n',
     'README.txt': 'Photographs of 6 cats 2024'}])
def test_a_list_of_classes_beside_an_export_is_no_other(form, names,
                                                        tmp_path):
    root = tmp_path / 'pets'
    write_numbered(root, NAMES)
    if form == 'coco':
        write_json(root / 'labels.json', coco(NAMES))
    else:
        write_each(form, root)
    for name, text in names.items():
        (root / name).write_text(text)
    if 'train.txt' in names and form == 'voc':
        (root / 'val.txt').write_text('d\ne\nf\n')
    _, boxes = prepare_pets(tmp_path)
    assert boxes == {name: [('cat', *number_box(i))]
                     for i, name in enumerate(NAMES)}


def test_label_files_beside_another_export_are_one(tmp_path):
    root = tmp_path / 'pets'
    write_numbered(root / 'images', NAMES)
    write_each('voc', root / 'Annotations')
    write_each('yolo', root / 'labels')
    match = "such as '[^']*/a.xml' and '[^']*/classes.txt': move all but one"
    with pytest.raises(UserError, match=match):
        prepare_pets(tmp_path)


@pytest.mark.parametrize('change, problem', [
    (lambda root: CASES['voc'].write(root), 'holds several exports'),
    (lambda root: shutil.copy(root / 'labels.json', root / 'old.json'),
     'keep one file of annotations'),
    (lambda root: shutil.move(root / 'labels.json', root / 'labels.zip'),
     'and unpack it'),
    (lambda root: (root / 'labels.json').rename(root / 'a.xml').write_text(
        '<annotations/>'), 'holds no COCO')])
def test_a_folder_must_hold_one_export(change, problem, tmp_path):
    write_coco(tmp_path / 'pets')
    change(tmp_path / 'pets')
    with pytest.raises(UserError, match=problem):
        prepare_boxes(str(tmp_path / 'pets'), str(tmp_path / 'out'))
    for file in (tmp_path / 'pets').glob('labels.json'):
        prepare_boxes(str(file), str(tmp_path / 'out'),
                      images=str(tmp_path / 'pets/images'))


def test_masks_without_labels_are_no_images(tmp_path):
    CASES['ultralytics'].write(tmp_path / 'pets')
    file = next((tmp_path / 'pets').rglob('*.yaml'))
    file.write_text(re.sub('(train|val): .*', r'\1: /elsewhere',
                           file.read_text()))
    write_image(tmp_path / f'pets/masks/{STEMS[0]}.png', 0)
    printed = ' '.join(str(prepare(tmp_path)).split())
    assert 'images 6 0' in printed and 'boxes 12 0' in printed
    assert '2 corrected splits that do not exist here' in printed
    assert '1 files skipped that the export does not list' in printed


@pytest.mark.parametrize('line, problem', [
    ('0 0.5 0.5 0.2', '4 numbers'), ('7 0.5 0.5 0.2 0.2', '--drop-class'),
    ('cat 0 0 1 1', "'cat'"), ('0.5 0.5 0.5 0.2 0.2', 'class 0.5')])
def test_lines_of_yolo_are_checked(line, problem, tmp_path):
    CASES['yolo'].write(tmp_path / 'pets')
    file = tmp_path / f'pets/train/labels/{STEMS[0]}.txt'
    file.write_text(line)
    with pytest.raises(UserError, match=problem):
        prepare_boxes(str(tmp_path / 'pets'), str(tmp_path / 'out'))
