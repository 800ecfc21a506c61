# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Random annotation files, random faults, and a simple count of boxes."""
import math
from contextlib import suppress

import numpy as np

WRONG = (None, True, False, 0, 1, -1, 3.5, 1e30, -1e30, math.nan, math.inf,
         '', '0', '1', 'text', 'a\nb', [], [1], {}, {'a': 1}, 10**30)


def random_content(rng: np.random.Generator, classes) -> dict:
    """Eight images of random sizes with some 20 boxes inside of them."""
    sizes = rng.integers(40, 200, (8, 2))
    images = [dict(id=int(i) * 7 + 1, file_name=f'{i}.png', width=int(w),
                   height=int(h)) for i, (w, h) in enumerate(sizes)]
    annotations = []
    for i in range(20):
        image = images[int(rng.integers(8))]
        x, y = (float(rng.integers(0, image[side] - 20))
                for side in ('width', 'height'))
        w, h = (float(rng.integers(4, 20)) for _ in range(2))
        annotations.append(dict(
            id=i + 1, image_id=image['id'], category_id=i % len(classes) + 1,
            bbox=[x, y, w, h], area=w * h, iscrowd=int(rng.random() < .1)))
    return dict(images=images, annotations=annotations, categories=[
        dict(id=i, name=name) for i, name in enumerate(classes, 1)])


def some_records(rng, content) -> list[dict]:
    """One, a few or all records of a list of the file."""
    key = rng.choice(['images', 'annotations', 'annotations', 'annotations',
                      'categories'])
    records = content.get(key)
    if not isinstance(records, list) or not records:
        return []
    number = int(rng.choice([1, 1, 2, len(records)]))
    rows = rng.permutation(len(records))[:number]
    return [records[i] for i in rows if isinstance(records[i], dict)]


def drop_key(rng, content):
    records = some_records(rng, content)
    if records and records[0]:
        key = rng.choice(sorted(records[0]))
        for record in records:
            record.pop(key, None)


def wrong_value(rng, content):
    records = some_records(rng, content)
    if records and records[0]:
        key = rng.choice(sorted(records[0]))
        value = WRONG[rng.integers(len(WRONG))]
        for record in records:
            record[key] = value


def swap_values(rng, content):
    records = some_records(rng, content)
    if len(records) > 1 and records[0]:
        key = rng.choice(sorted(records[0]))
        values = [record.get(key) for record in records]
        for record, value in zip(records, values[1:] + values[:1]):
            record[key] = value


def wrong_side(rng, content):
    for record in some_records(rng, content):
        box = record.get('bbox')
        if isinstance(box, list) and box:
            box = list(box)
            box[rng.integers(len(box))] = WRONG[rng.integers(len(WRONG))]
            record['bbox'] = box


def change_boxes(rng, content):
    changes = [
        lambda x, y, w, h: [x, y, x + w, y + h],
        lambda x, y, w, h: [x / 200, y / 200, w / 200, h / 200],
        lambda x, y, w, h: [2 * x, 2 * y, 2 * w, 2 * h],
        lambda x, y, w, h: [x + 300, y, w, h],
        lambda x, y, w, h: [x, y, -w, h],
        lambda x, y, w, h: [x, y, 0, h],
        lambda x, y, w, h: [x - 10, y - 10, w, h],
        lambda x, y, w, h: [x, y, w],
    ]
    change = changes[rng.integers(len(changes))]
    for record in some_records(rng, content):
        with suppress(KeyError, TypeError):
            record['bbox'] = change(*record['bbox'])


def as_text(rng, content):
    for record in some_records(rng, content):
        key = rng.choice(sorted(record)) if record else None
        if key:
            record[key] = str(record[key])


def shift_ids(rng, content):
    key = rng.choice(['id', 'image_id', 'category_id'])
    shift = int(rng.choice([-1, 1, 100]))
    for record in some_records(rng, content):
        if isinstance(record.get(key), int):
            record[key] += shift


def repeat_record(rng, content):
    key = rng.choice(['images', 'annotations', 'categories'])
    records = content.get(key)
    if isinstance(records, list) and records:
        record = records[rng.integers(len(records))]
        records.append(dict(record) if isinstance(record, dict) else record)


def replace_record(rng, content):
    key = rng.choice(['images', 'annotations', 'annotations', 'categories'])
    records = content.get(key)
    if isinstance(records, list) and records:
        records[rng.integers(len(records))] = WRONG[rng.integers(len(WRONG))]


def replace_list(rng, content):
    if rng.random() < .8:  # which ends most of the cases
        return wrong_value(rng, content)
    key = rng.choice(['images', 'annotations', 'categories'])
    content[key] = WRONG[rng.integers(len(WRONG))]


CHANGES = (drop_key, wrong_value, swap_values, wrong_side, change_boxes,
           as_text, shift_ids, repeat_record, replace_record, replace_list)


def _number(value) -> bool:
    return (isinstance(value, int | float) and not isinstance(value, bool)
            and math.isfinite(value))


def naive_boxes(content: dict, classes) -> list[tuple]:
    """What a data set should read, as ``boxes_of`` gives it.

    One annotation after the other, by the rules of docs/own_data.md.
    """
    images = {each['id']: each for each in content['images']}
    labels = {each['id']: classes.index(each['name'])
              for each in content['categories']}
    found = []
    for each in content['annotations']:
        try:
            image = images[each['image_id']]
            label = labels[each['category_id']]
            x, y, w, h = each['bbox']
            crowd = {'0': 0, '1': 1, None: 0, '': 0, 0: 0, 1: 1}[
                each.get('iscrowd')]
        except (KeyError, TypeError, ValueError):
            continue
        if isinstance(each['image_id'], bool) or isinstance(
                each['category_id'], bool) or each.get('ignore'):
            continue
        if not isinstance(each['bbox'], list) or not all(
                map(_number, (x, y, w, h))):
            continue
        across = min(x + w, image['width']) - max(x, 0)
        down = min(y + h, image['height']) - max(y, 0)
        huge = 10 * max(image['width'], image['height'])
        if w < 1 or h < 1 or across <= 0 or down <= 0 or max(
                map(abs, (x, y, w, h))) > huge:
            continue
        found.append((str(each['image_id']), label, x, y, x + w, y + h,
                      crowd))
    return sorted(found)
