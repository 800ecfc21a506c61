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
def test_every_image_and_box_is_accounted_for(name, tmp_path, capsys):
    case = CASES[name]
    case.write(tmp_path / 'pets')
    prepare_boxes(str(tmp_path / 'pets'), str(tmp_path / 'out'))
    printed = capsys.readouterr().out
    assert printed.startswith(f'{case.source}: {case.images} images, 2 class')
    lines = [line.split() for line in printed.splitlines()]
    for kind, number, lost in (('images', case.images, 0),
                               ('boxes', case.boxes, case.left_out)):
        *_, row = (line for line in lines if line[:1] == [kind])
        assert row[1:3] == [str(number + lost), str(lost)]
        assert sum(map(int, row[3:])) == number
    for line in case.put_right:
        assert line in printed
    found = read(tmp_path / 'out')
    assert {'train', 'val'} <= {*found}
    boxes = [box for each in found.values() for box in each.annotations]
    assert len(boxes) == case.boxes
    assert sum(len(each.images) for each in found.values()) == case.images
    expected = {(i, *map(float, box))
                for i, (_, *box) in enumerate(BOXES, 1)}
    assert expected <= {(box.category_id, *(round(x, 6) for x in box.bbox))
                        for box in boxes}
    assert any(box.iscrowd for box in boxes) == (name == 'voc')
