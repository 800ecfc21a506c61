# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write small exports with the tools' own converters (run by hand).

    pip install label-studio-sdk==2.1.2 && python make.py label_studio
    pip install supervision==0.31.2 && python make.py supervision
    pip install datumaro==1.13.12 && python make.py datumaro
    pip install labelme==6.3.1 && python make.py labelme

Each writes folders ``TOOL-VERSION-FORM`` beside this file, and the objects
that it was given to ``truth.json``. tests/annotations/test_from_tools.py
reads them.
"""
import json
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).parent
LABELS = ['truck', 'car', 'person']  # not in alphabetical order
#: Upright sizes are 40x32. Left, top, width, height; the last is a negative.
OBJECTS = {
    '20240115-0800.jpg': [('car', 4, 8, 20, 16), ('truck', 20, 4, 16, 12)],
    'street.jpg': [('person', 8, 4, 8, 24)],
    'street.2.jpg': [('truck', 0, 0, 40, 32), ('car', 12, 12, 12, 12)],
    'train_7.jpg': [('person', 4, 4, 12, 12), ('person', 16, 4, 12, 12)],
    'a b.jpg': [('car', 24, 16, 12, 12), ('truck', 4, 4, 8, 8)],
    'phone.jpg': [('person', 2, 6, 24, 8), ('car', 20, 20, 16, 8)],
    'empty.jpg': []}


def write_images(folder: Path, exif: bool) -> None:
    """Write the images; the phone's is stored turned."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(OBJECTS):
        pixels = np.random.default_rng(seed).integers(
            0, 255, (4, 5, 3), np.uint8)
        image = Image.fromarray(pixels).resize((40, 32), Image.NEAREST)
        tags = Image.Exif()
        if exif and name == 'phone.jpg':
            image = image.transpose(Image.Transpose.ROTATE_90)
            tags[274] = 6
        image.save(folder / name, quality=60, exif=tags)


def new(tool: str, form: str) -> Path:
    folder = HERE / f'{tool}-{version(tool)}-{form}'
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def label_studio() -> None:
    from label_studio_sdk.converter import Converter

    config = '<View><Image name="image" value="$image"/><RectangleLabels ' \
        'name="label" toName="image">{}</RectangleLabels></View>'
    plain = config.format(''.join(
        f'<Label value="{label}"/>' for label in LABELS))
    numbered = config.format(''.join(
        f'<Label value="{label}" category="{number}"/>'
        for label, number in zip(LABELS, (2, 0, 1))))
    with tempfile.TemporaryDirectory() as temporary:
        uploads = Path(temporary, 'upload/1')
        write_images(uploads, exif=True)
        tasks = []
        for number, (name, objects) in enumerate(OBJECTS.items()):
            hashed = f'{number + 0xabcd1230:08x}-{name}'
            (uploads / name).rename(uploads / hashed)
            results = []
            for label, x, y, w, h in objects:
                results.append(dict(
                    from_name='label', to_name='image', id=str(len(results)),
                    type='rectanglelabels', original_width=40,
                    original_height=32, image_rotation=0, value=dict(
                        x=x / .4, y=y / .32, width=w / .4, height=h / .32,
                        rotation=0, rectanglelabels=[label])))
            tasks.append(dict(
                id=number + 1, data=dict(image=f'/data/upload/1/{hashed}'),
                annotations=[dict(id=number + 1, result=results,
                                  completed_by=dict(id=1))]))
        file = Path(temporary, 'tasks.json')
        file.write_text(json.dumps(tasks))
        for form, name, labels in (
                ('COCO_WITH_IMAGES', 'coco', plain),
                ('YOLO_WITH_IMAGES', 'yolo', plain),
                ('YOLO_WITH_IMAGES', 'yolo_numbered', numbered),
                ('YOLO_OBB_WITH_IMAGES', 'yolo_obb', plain),
                ('VOC', 'voc', plain)):
            written = Path(temporary, name)
            Converter(labels, project_dir=temporary, download_resources=True,
                      upload_dir=str(uploads.parent)).convert(
                str(file), str(written), form, is_dir=False)
            shutil.copytree(written, new('label-studio-sdk', name))


def supervision() -> None:
    import supervision as sv

    with tempfile.TemporaryDirectory() as temporary:
        write_images(Path(temporary), exif=False)
        annotations = {}
        for name, objects in OBJECTS.items():
            boxes = np.array([item[1:] for item in objects], float)
            boxes = boxes.reshape(-1, 4)
            boxes[:, 2:] += boxes[:, :2]
            annotations[str(Path(temporary, name))] = sv.Detections(
                xyxy=boxes, class_id=np.array(
                    [LABELS.index(item[0]) for item in objects], int))
        data = sv.DetectionDataset(LABELS, [*annotations], annotations)
        coco, yolo, voc, labelme = (
            new('supervision', form)
            for form in ('coco', 'yolo', 'voc', 'labelme'))
        data.as_coco(str(coco / 'images'), str(coco / 'annotations.json'))
        data.as_yolo(str(yolo / 'images'), str(yolo / 'labels'),
                     str(yolo / 'data.yaml'))
        data.as_pascal_voc(str(voc / 'images'), str(voc / 'annotations'))
        data.as_labelme(str(labelme / 'images'), str(labelme / 'annotations'))


def datumaro() -> None:
    import datumaro as dm

    with tempfile.TemporaryDirectory() as temporary:
        write_images(Path(temporary), exif=False)
        items = []
        for number, (name, objects) in enumerate(OBJECTS.items()):
            boxes = []
            for label, x, y, w, h in objects:
                boxes.append(dm.Bbox(x, y, w, h, id=len(boxes), group=0,
                                     label=LABELS.index(label)))
            items.append(dm.DatasetItem(
                id=Path(name).stem, subset='train' if number % 2 else 'val',
                media=dm.Image.from_file(str(Path(temporary, name))),
                annotations=boxes))
        data = dm.Dataset.from_iterable(items, categories=LABELS)
        for form in ('coco_instances', 'yolo', 'yolo_ultralytics',
                     'voc_detection'):
            data.export(str(new('datumaro', form)), form, save_media=True)


def labelme() -> None:
    from labelme._label_file import read_image_file, write_label_file

    folder = new('labelme', 'json')
    write_images(folder / 'images', exif=True)
    (folder / 'json').mkdir()
    for name, objects in OBJECTS.items():
        shapes = [dict(label=label, points=[[x, y], [x + w, y + h]],
                       group_id=None, description='',
                       shape_type='rectangle', flags={}, mask=None)
                  for label, x, y, w, h in objects]
        write_label_file(
            str(folder / 'json' / name.replace('.jpg', '.json')),
            shapes=shapes, image_path=f'..\\images\\{name}', image_height=32,
            image_width=40, flags={},
            image_data=read_image_file(str(folder / 'images' / name)))


if __name__ == '__main__':
    globals()[sys.argv[1]]()
    (HERE / 'truth.json').write_text(json.dumps(OBJECTS, indent=1))
