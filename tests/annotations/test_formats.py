# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Exports of each tool become data that the strict loader accepts."""

import pytest

from qbheat_mm.apis import prepare_boxes
from qbheat_mm.datasets.coco_check import check_images, load_coco

from .exports import BOXES, CASES, CLASSES


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
    prepared = prepare_boxes(str(tmp_path / 'pets'), str(tmp_path / 'out'))
    assert prepared.summary.startswith(f'{case.source}: {case.images} images')
    found = read(tmp_path / 'out')
    assert {'train', 'val'} <= {*found}
    assert sum(len(each.images) for each in found.values()) == case.images
    boxes = [box for each in found.values() for box in each.annotations]
    assert len(boxes) == case.boxes
    expected = {(i, *map(float, box))
                for i, (_, *box) in enumerate(BOXES, 1)}
    assert expected <= {(box.category_id, *(round(x, 6) for x in box.bbox))
                        for box in boxes}
    for line in case.put_right:
        assert line in prepared.summary
    assert prepared.left_out['boxes'] == case.left_out
    assert not any(box.iscrowd for box in boxes) or name == 'voc'
