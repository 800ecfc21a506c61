# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Labels follow the classes, whatever order and ids a file gives them."""
import json

import pytest
import torch
from mmdet.registry import DATASETS, METRICS

from .conftest import write_coco

NAMES = ('disc', 'square', 'ring')


@pytest.fixture(params=[(1, 2, 3), (7, 2, 30), (3, 2, 1)])
def file(request, tmp_path):
    """Of each category one object, with these ids."""
    path = write_coco(tmp_path, classes=NAMES)
    content = json.loads((tmp_path / 'ann.json').read_text())
    content['annotations'] = content['annotations'][:2] + content[
        'annotations'][4:]  # without the crowd and the flat box
    new = dict(zip((1, 2, 3), request.param))
    for key, records in (('id', content['categories']),
                         ('category_id', content['annotations'])):
        for record in records:
            record[key] = new[record[key]]
    (tmp_path / 'ann.json').write_text(json.dumps(content))
    return path


def dataset(file, classes):
    return DATASETS.build(dict(
        type='MatchedCocoDataset', ann_file=file, test_mode=True,
        data_prefix=dict(img=file.rsplit('/', 1)[0]),
        metainfo=dict(classes=classes), pipeline=[]))


def perfect(data, only):
    """Predictions of all objects of one class, and of no other."""
    label = data.metainfo['classes'].index(only)
    for i in range(len(data)):
        info = data.get_data_info(i)
        found = [box for box in info['instances']
                 if box['bbox_label'] == label and not box['ignore_flag']]
        yield dict(img_id=info['img_id'], ori_shape=(
            info['height'], info['width']), pred_instances=dict(
                bboxes=torch.tensor([box['bbox'] for box in found],
                                    dtype=torch.float32).reshape(-1, 4),
                labels=torch.full((len(found), ), label),
                scores=torch.ones(len(found))))


@pytest.mark.parametrize('classes', [
    NAMES, ('ring', 'disc', 'square'), ('square', 'ring', 'disc')])
def test_a_class_has_its_own_name_and_precision(file, classes, tmp_path):
    """Both were of others where ids do not ascend in the file's order."""
    data = dataset(file, classes)
    metric = METRICS.build(dict(
        type='MatchedCocoMetric', ann_file=file, classwise=True,
        outfile_prefix=str(tmp_path / 'found')))
    metric.dataset_meta = data.metainfo
    content = json.loads((tmp_path / 'ann.json').read_text())
    ids = {each['name']: each['id'] for each in content['categories']}
    # one metric evaluates again and again
    for only in (*NAMES, NAMES[0]):
        metric.process({}, list(perfect(data, only)))
        found = metric.evaluate(len(data))
        assert {name: found[f'coco/{name}_precision'] for name in NAMES} == {
            name: float(name == only) for name in NAMES}
        written = json.loads((tmp_path / 'found.bbox.json').read_text())
        # ids of the file, as whoever gets the predictions needs them
        assert {each['category_id'] for each in written} == {ids[only]}
