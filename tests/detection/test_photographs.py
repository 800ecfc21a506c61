# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Large photographs are decoded once."""
import json
from pathlib import Path

import cv2
import mmcv
import numpy as np
import pytest
from mmdet.datasets.transforms import LoadAnnotations, Resize

from qbheat_mm.datasets.images import ImageFile
from qbheat_mm.datasets.transforms import LoadNamedImageFromFile
from qbheat_mm.detection import MatchedCocoDataset
from qbheat_mm.detection.photographs import Photographs

SCALE = 64, 48


@pytest.fixture(params=['jpg', 'png'])
def photo(request, tmp_path):
    """A smooth photograph of 400x300 pixels, and a box on it."""
    noise = np.random.default_rng(0).uniform(0, 255, (6, 8, 3))
    image = cv2.resize(noise, (400, 300), interpolation=cv2.INTER_CUBIC)
    path = str(tmp_path / f'photo.{request.param}')
    mmcv.imwrite(image.clip(0, 255).astype(np.uint8), path)
    return dict(
        img_path=path, sample_idx=3, width=400, height=300,
        instances=[dict(bbox=[100, 30, 300, 180], bbox_label=0, ignore_flag=0,
                        mask=[[100, 30, 300, 30, 300, 180]])])


def annotated(results, **options):
    for step in (LoadAnnotations(with_bbox=True, with_mask=True, **options),
                 Resize(SCALE, keep_ratio=True, interpolation='area')):
        results = step(results)
    return results


def test_photographs_are_as_if_they_were_smaller(photo, monkeypatch):
    load, photographs = LoadNamedImageFromFile(), Photographs(SCALE)
    decoded, decode = [], ImageFile.decode
    monkeypatch.setattr(ImageFile, 'decode', lambda *args, **kwargs: (
        decoded.append(args), decode(*args, **kwargs))[1])
    usual = annotated(load(dict(photo)))
    for _ in range(2):
        found = annotated(load(photographs.shrink(photo, load)))
        assert found['img'].shape == usual['img'].shape == (48, 64, 3)
        difference = found['img'].astype(int) - usual['img']
        assert np.abs(difference).mean() < 2
        np.testing.assert_allclose(found['gt_bboxes'].tensor,
                                   usual['gt_bboxes'].tensor)
        both = found['gt_masks'].to_ndarray() + usual['gt_masks'].to_ndarray()
        assert (both == 1).sum() < 0.1 * (both == 2).sum()
        found['img'][:] = 0  # as a transform may
    assert len(decoded) == (2 if photographs.cache else 3)
    assert photo['instances'][0]['bbox'] == [100, 30, 300, 180]


def test_small_images_and_encoded_masks_stay_as_they_are(photo):
    assert Photographs((300, 225)).shrink(photo, None) is photo
    photo['instances'][0]['mask'] = dict(size=[300, 400], counts='')
    assert Photographs(SCALE).shrink(photo, None) is photo


def test_a_data_set_of_photographs(photo, tmp_path, monkeypatch):
    """Boxes fit the images, and a skipped file is skipped."""
    (tmp_path / 'train.json').write_text(json.dumps(dict(
        images=[dict(id=1, file_name=photo['img_path'], width=400,
                     height=300)],
        annotations=[dict(id=1, image_id=1, category_id=1, iscrowd=0,
                          bbox=[100, 30, 200, 150], area=30000)],
        categories=[dict(id=1, name='a')])))
    data = MatchedCocoDataset(
        ann_file=str(tmp_path / 'train.json'), metainfo=dict(classes=('a', )),
        data_prefix=dict(img=''), shrink_to=SCALE, pipeline=[
            dict(type='LoadImageFromFile', _scope_='qbheat_mm',
                 ignore_empty=True),
            dict(type='LoadAnnotations', with_bbox=True)])
    assert data.get_data_info(0)['width'] == 400  # which samplers ask
    sample = data[0]
    assert sample['img'].shape == sample['ori_shape'] + (3, ) == (48, 64, 3)
    np.testing.assert_allclose(sample['gt_bboxes'].tensor,
                               [[16, 4.8, 48, 28.8]])
    data.photographs.cache = None
    Path(photo['img_path']).write_bytes(b'no image')
    assert data.prepare_data(0) is None
