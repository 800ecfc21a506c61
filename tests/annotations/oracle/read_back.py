# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What was prepared, read with nothing but json and Pillow."""
import ast
import json
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .truth import Truth, fingerprint


class Triple(NamedTuple):
    split: str
    image: str
    label: str
    box: tuple


def image_folder(config: Path) -> Path:
    """The value of ``data_prefix=dict(img=...)`` in a config."""
    for node in ast.walk(ast.parse(config.read_text('utf-8'))):
        if isinstance(node, ast.keyword) and node.arg == 'data_prefix':
            for keyword in node.value.keywords:
                if keyword.arg == 'img':
                    value = ast.literal_eval(keyword.value)
                    return Path(value.replace(
                        '{{ fileDirname }}', str(config.parent)))
    raise ValueError(f'no data_prefix in {config}')


def read_boxes(out: Path) -> tuple[list[Triple], set]:
    """The objects of all splits, and all images with their splits."""
    folder = image_folder(out / 'boxes.py')
    triples, images = [], set()
    for file in sorted((out / 'annotations').glob('*.json')):
        content = json.loads(file.read_text('utf-8'))
        labels = {category['id']: category['name']
                  for category in content['categories']}
        prints = {}
        for image in content['images']:
            print_ = fingerprint(folder / image['file_name'])
            prints[image['id']] = print_
            assert (file.stem, print_) not in images, image
            images.add((file.stem, print_))
        for item in content['annotations']:
            triples.append(Triple(
                file.stem, prints[item['image_id']],
                labels[item['category_id']], tuple(item['bbox'])))
    return triples, images


def read_classes(out: Path) -> list[Triple]:
    """The class of each image below train, val and test."""
    triples = []
    for path in sorted(out.glob('*/*/**/*')):
        if path.is_file():
            split, label, *_ = path.relative_to(out).parts
            triples.append(Triple(split, fingerprint(path), label, ()))
    return triples


def expected_boxes(truth: Truth) -> tuple[list[Triple], set]:
    """What a truth says must be there: all that is not missing."""
    triples, images = [], set()
    for photo in truth.photos:
        if photo.missing:
            continue
        print_ = fingerprint(photo.file)
        images.add((photo.split, print_))
        for target in photo.targets:
            triples.append(Triple(
                photo.split, print_, target.label, target.box))
    return triples, images


def by_image(triples: list[Triple], splits: bool) -> dict:
    """Boxes of each image, label and, if it is given, split."""
    grouped = defaultdict(list)
    for triple in triples:
        key = (triple.split if splits else '', triple.image, triple.label)
        grouped[key].append(triple.box)
    return grouped


def assert_equal_boxes(expected: tuple, found: tuple, splits: bool,
                       tolerance: float = 0.02) -> None:
    """Compare triples and images, and their splits if they are given."""
    expected, expected_images = expected
    found, found_images = found
    if splits:
        assert found_images == expected_images
    else:
        assert {image for _, image in found_images} == {
            image for _, image in expected_images}
    expected, found = by_image(expected, splits), by_image(found, splits)
    assert found.keys() == expected.keys()
    for key, boxes in expected.items():
        rest = np.array(found[key], float)
        assert len(rest) == len(boxes), key
        for box in boxes:
            distances = np.abs(rest - box).max(1)
            assert distances.min() < tolerance, (key, box, rest)
            rest = np.delete(rest, distances.argmin(), 0)
