# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Writers of COCO files with the habits of several tools."""
import json
from pathlib import Path

from .truth import Features, Photo, Target, Truth


def rectangle(box: tuple) -> list:
    x, y, w, h = box
    return [x, y, x + w, y, x + w, y + h, x, y + h]


def run_lengths(box: tuple, size: tuple) -> dict:
    """Uncompressed run lengths of a box of whole pixels, by columns."""
    (x, y, w, h), (width, height) = box, size
    counts = [x * height + y]
    for column in range(w):
        rest = height - h if column < w - 1 else 0
        counts += [h, rest]
    counts[-1] = width * height - sum(counts[:-1])
    return dict(counts=counts, size=[height, width])


class Content:
    """The content of a COCO file, built image by image."""
    licenses = []

    def __init__(self, labels: list, random, first_id: int = 1) -> None:
        ids = random.permutation(len(labels) * 2)[:len(labels)] + first_id
        self.ids = dict(zip(labels, ids.tolist()))
        self.categories = [dict(id=number, name=label)
                           for label, number in self.ids.items()]
        self.images, self.annotations = [], []
        self.random = random

    def add(self, photo: Photo, name: str, size: tuple) -> None:
        number = 7 + 3 * len(self.images)
        self.images.append(dict(id=number, file_name=name, width=size[0],
                                height=size[1]))
        for target in photo.targets:
            self.annotations.append(self.annotation(photo, target, number))

    def annotation(self, photo: Photo, target: Target, image: int) -> dict:
        x, y, w, h = photo.state_box(target.box)
        return dict(
            id=len(self.annotations) + 1, image_id=image, area=w * h,
            category_id=self.ids[target.label], bbox=[x, y, w, h],
            segmentation=[rectangle(photo.state_box(part))
                          for part in target.parts],
            iscrowd=0)

    def write(self, path: Path, info: dict | None = None) -> None:
        self.random.shuffle(self.images)
        self.random.shuffle(self.annotations)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(dict(
            info=info or {}, licenses=self.licenses, images=self.images,
            categories=self.categories, annotations=self.annotations)))


def write_plain(truth: Truth, root: Path, random) -> None:
    """COCO's own folders; names relative to one of four places."""
    prefix = random.choice(['', 'images/', '../images/',
                            '/home/me/project 1/images/'])
    for split in truth.splits:
        content = Content(truth.labels, random)
        for photo in truth.of_split(split):
            photo.write(root / 'images' / photo.path)
            content.add(photo, f'{prefix}{photo.path}', photo.stated_size)
        name = f'instances_{split}2017.json' if split else 'instances.json'
        content.write(root / 'annotations' / name)


def write_split_folders(truth: Truth, root: Path, random) -> None:
    """A folder of images for each split, as COCO's train2017."""
    for split in truth.splits:
        folder = f'{split}2017' if split else 'images'
        content = Content(truth.labels, random)
        for photo in truth.of_split(split):
            photo.write(root / folder / photo.path)
            content.add(photo, photo.path, photo.stated_size)
        content.write(root / f'annotations/instances_{folder}.json')


def write_roboflow(truth: Truth, root: Path, random) -> None:
    names = dict(val='valid', train='train', test='test')
    for split in truth.splits:
        content = Content(truth.labels, random)
        content.categories.insert(0, dict(
            id=0, name='things', supercategory='none'))
        folder = root / names[split] if split else root
        for photo in truth.of_split(split):
            stem, _, extension = photo.name.rpartition('.')
            code = random.bytes(16).hex()
            name = f'{stem}_{extension}.rf.{code}.{extension}'
            photo.write(folder / name)
            content.add(photo, name, photo.size)
        content.write(folder / '_annotations.coco.json')


class CvatContent(Content):
    licenses = [dict(name='', id=0, url='')]

    def annotation(self, photo, target, image):
        result = super().annotation(photo, target, image)
        result['attributes'] = dict(occluded=False, rotation=target.angle)
        if target.angle:  # the box as it was before it was turned
            result.update(bbox=list(target.parts[0]), segmentation=[])
        elif len(target.parts) == 1 and self.random.random() < 0.3:
            result.update(iscrowd=1, segmentation=run_lengths(
                target.parts[0], photo.size))
        return result


def write_cvat(truth: Truth, root: Path, random) -> None:
    names = {'': 'default', 'train': 'Train', 'val': 'Validation',
             'test': 'Test'}
    for split in truth.splits:
        content = CvatContent(truth.labels, random)
        for photo in truth.of_split(split):
            photo.write(root / 'images' / names[split] / photo.path)
            content.add(photo, photo.path, photo.size)
        content.write(root / f'annotations/instances_{names[split]}.json')


def write_label_studio(truth: Truth, root: Path, random) -> None:
    """Sizes as stored, boxes upright; the server's path and a hash."""
    content = Content(truth.labels, random, first_id=0)
    style = random.choice(['relative', 'windows', 'server'])
    for photo in truth.photos:
        name = f'{random.bytes(4).hex()}-{photo.name}'
        photo.write(root / 'images' / name)
        listed = dict(relative=f'images/{name}',
                      windows=f'images\\3/{name}',
                      server=f'../../label-studio/data/media/upload/3/{name}')
        content.add(photo, listed[style], photo.stored_size)
    content.write(root / 'result.json', dict(contributor='Label Studio'))


def write_label_studio_originals(truth: Truth, root: Path, random) -> None:
    """The export lists names with a hash; the images are the originals."""
    content = Content(truth.labels, random, first_id=0)
    for photo in truth.photos:
        photo.write(root / 'images' / photo.name)
        name = f'{random.bytes(4).hex()}-{photo.name}'
        content.add(photo, f'/data/upload/12/{name}', photo.stored_size)
    content.write(root / 'result.json', dict(contributor='Label Studio'))


def write_via(truth: Truth, root: Path, random) -> None:
    """No sizes, ids as text, each category once per image."""
    content = Content(truth.labels, random)
    for photo in truth.photos:
        photo.write(root / photo.path)
        content.add(photo, photo.path, (0, 0))
    content.categories *= len(content.images)
    for annotation in content.annotations:
        annotation['image_id'] = str(annotation['image_id'])
        annotation['segmentation'] = annotation['segmentation'][0]
    content.write(root / 'via_export_coco.json', dict(
        description='Exported using VGG Image Annotator'))


def write_fiftyone(truth: Truth, root: Path, random) -> None:
    for split in truth.splits:
        content = Content([*truth.labels, 'unused'], random)
        folder = root / split
        for photo in truth.of_split(split):
            photo.write(folder / 'data' / photo.path)
            content.add(photo, photo.path, photo.stated_size)
        for annotation in content.annotations:
            annotation['bbox'] = [str(x) for x in annotation['bbox']]
            del annotation['iscrowd'], annotation['segmentation']
        content.write(folder / 'labels.json', dict(
            description='Exported from FiftyOne'))


FORMS = dict(
    coco_plain=(write_plain, Features(grouped=True, pixels='either')),
    coco_split_folders=(write_split_folders, Features(
        grouped=True, pixels='either')),
    coco_roboflow=(write_roboflow, Features(nested=False, pixels='option')),
    coco_cvat=(write_cvat, Features(rotated=True)),
    coco_label_studio=(write_label_studio, Features(
        nested=False, splits=False)),
    coco_label_studio_originals=(write_label_studio_originals, Features(
        nested=False, splits=False)),
    coco_via=(write_via, Features(splits=False, pixels='either')),
    coco_fiftyone=(write_fiftyone, Features(pixels='either')))
