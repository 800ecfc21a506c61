# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Large photographs are decoded once, and images have one size."""
import cv2
import mmcv
import numpy as np
import pytest
from mmdet.datasets.transforms import LoadAnnotations, Resize

from qbheat_mm.datasets.images import ImageFile
from qbheat_mm.detection import LoadShrunkImage, PadToScale

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
    load = LoadShrunkImage(SCALE)
    decoded, decode = [], ImageFile.decode
    monkeypatch.setattr(ImageFile, 'decode', lambda *args, **kwargs: (
        decoded.append(args), decode(*args, **kwargs))[1])
    usual = annotated(super(LoadShrunkImage, load).transform(dict(photo)))
    for _ in range(2):
        found = annotated(load(dict(photo)))
        assert found['img'].shape == usual['img'].shape == (48, 64, 3)
        difference = found['img'].astype(int) - usual['img']
        assert np.abs(difference).mean() < 2
        np.testing.assert_allclose(found['gt_bboxes'].tensor,
                                   usual['gt_bboxes'].tensor)
        both = found['gt_masks'].to_ndarray() + usual['gt_masks'].to_ndarray()
        assert (both == 1).sum() < 0.1 * (both == 2).sum()
        found['img'][:] = 0  # as a transform may
    assert len(decoded) == (2 if load.cache else 3)
    assert photo['instances'][0]['bbox'] == [100, 30, 300, 180]


def test_small_images_and_encoded_masks_are_loaded_as_usual(photo):
    assert LoadShrunkImage((300, 225))(dict(photo))['img'].shape == (
        300, 400, 3)
    photo['instances'][0]['mask'] = dict(size=[300, 400], counts='')
    assert LoadShrunkImage(SCALE)(dict(photo))['img'].shape == (300, 400, 3)


@pytest.mark.parametrize('size, padded', [
    ((400, 300), (64, 48)), ((300, 400), (48, 64)), ((400, 100), (64, 48)),
    ((100, 400), (48, 64)), ((200, 200), (64, 48))])
def test_images_have_one_size(size, padded):
    image = np.full((*size[::-1], 3), 9, np.uint8)
    results = dict(img=image, img_shape=size[::-1])
    results = PadToScale()(Resize(SCALE, keep_ratio=True)(results))
    assert results['img'].shape[:2] == padded[::-1]
    assert (results['img'][0, 0] == 9).all()
