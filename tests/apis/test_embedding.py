# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Embeddings of images of all kinds."""
import logging

import mmcv
import numpy as np
import pytest
import torch
from PIL import Image

from qbheat_mm.apis import embed, load_encoder
from qbheat_mm.errors import UserError


@pytest.fixture(scope='module')
def encoder(checkpoint):
    return load_encoder(checkpoint)


@pytest.fixture
def picture():
    random = np.random.default_rng(1)
    return random.integers(0, 255, (32, 32, 3), dtype=np.uint8)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_folder(encoder, checkpoint, folders):
    state = torch.get_rng_state()
    found = embed(encoder, folders / 'train')
    assert torch.equal(state, torch.get_rng_state())
    assert found.embeddings.shape == (12, 20) and len(found) == 12
    assert found.embeddings.dtype == np.float32
    assert found.files[0] == str(folders / 'train' / 'blue' / '0.png')
    again = embed(checkpoint, str(folders / 'train'), batch_size=5, workers=1)
    assert again.files == found.files
    close(again.embeddings, found.embeddings)


def test_all_kinds_of_the_same_picture(encoder, picture, tmp_path):
    file = tmp_path / 'x.png'
    mmcv.imwrite(mmcv.rgb2bgr(picture), str(file))
    tensor = torch.from_numpy(picture).permute(2, 0, 1)
    kinds = [str(file), file, picture, tensor, Image.fromarray(picture),
             picture[None], tensor[None]]
    expected = encoder.pool(encoder(encoder.normalize(tensor[None])))[0]
    for kind in kinds:
        close(embed(encoder, kind).embeddings[0], expected.detach())
    found = embed(encoder, kinds)
    assert len(found) == 7 and np.ptp(found.embeddings, axis=0).max() < 1e-5
    assert found.files == [str(file), str(file), *(
        f'[{i}]' for i in range(2, 7))]


def test_sizes(encoder, picture, monkeypatch):
    wide = np.concatenate([picture, picture], axis=1)
    tall = np.concatenate([picture, picture])
    # By default the size of the training, 32: the center of the image.
    for image, center in ((wide, wide[:, 16:48]), (tall, tall[16:48])):
        close(embed(encoder, image).embeddings,
              embed(encoder, center).embeddings)
    shapes = {0: (32, 64), (32, 64): (32, 64), 64: (64, 64)}
    for size in (*shapes, None):
        if size is None:  # and the size of the training is unknown
            monkeypatch.setattr(encoder, 'size', None)
        seen = []
        handle = encoder.backbone.register_forward_pre_hook(
            lambda _, args, seen=seen: seen.append(args[0].shape[2:]))
        embed(encoder, wide, size=size)
        handle.remove()
        assert seen == [shapes.get(size, (224, 224))]


def test_own_sizes_keep_the_order(encoder, folders):
    files = sorted(map(str, (folders / 'train' / 'red').iterdir()))
    found = embed(encoder, files, size=0, batch_size=4)
    assert found.files == files
    for file, row in zip(files, found.embeddings):
        close(row, embed(encoder, file, size=0).embeddings[0])


def test_a_damaged_file_is_skipped(encoder, picture, tmp_path, caplog):
    mmcv.imwrite(picture, str(tmp_path / 'a.png'))
    (tmp_path / 'b.png').write_bytes(
        (tmp_path / 'a.png').read_bytes()[:500])
    with caplog.at_level(logging.WARNING):
        found = embed(encoder, tmp_path)
    assert found.files == [str(tmp_path / 'a.png')]
    with pytest.raises(UserError, match='none of 1 images could be read'):
        embed(encoder, tmp_path / 'b.png')
    with pytest.raises(UserError, match=r"b\.png' is damaged"):
        embed(encoder, Image.open(tmp_path / 'b.png'))


@pytest.mark.parametrize('images', [
    np.zeros((4, 4, 3)), np.zeros((4, 4), np.uint8),
    torch.zeros(4, 4, 3, dtype=torch.uint8),
    np.zeros((0, 4, 4, 3), np.uint8), [3], [], 'nowhere'], ids=type)
def test_other_objects_are_refused(encoder, images):
    with pytest.raises(UserError, match='no images|not an image|not exist'):
        embed(encoder, images)


def test_an_encoder_in_training_is_evaluated_and_left_as_it_was(
        checkpoint, folders):
    encoder = load_encoder(checkpoint)
    encoder.backbone.dropped = torch.nn.Dropout()
    encoder.backbone.conv.register_forward_hook(
        lambda module, inputs, output: encoder.backbone.dropped(output))
    expected = embed(encoder, folders / 'train').embeddings
    before = {name: value.clone()
              for name, value in encoder.state_dict().items()}
    encoder.train()
    frozen = next(m for m in encoder.modules()
                  if isinstance(m, torch.nn.BatchNorm2d)).eval()
    close(embed(encoder, folders / 'train').embeddings, expected)
    assert encoder.training and encoder.backbone.training
    assert not frozen.training
    for name, value in encoder.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_a_pil_image_is_that_of_its_file(encoder, tmp_path):
    """Upright; gray, with alpha, of 16 bits: as RGB of 8 bits."""
    gray = np.random.default_rng(0).integers(0, 255, (32, 48), np.uint8)
    rgb = np.stack([gray] * 3, -1)
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.fromarray(rgb).save(tmp_path / 'turned.png', exif=turned)
    Image.fromarray(gray).save(tmp_path / 'gray.png')
    Image.fromarray(np.dstack([rgb, gray // 2])).save(tmp_path / 'alpha.png')
    Image.fromarray(gray.astype(np.uint16) * 256 + 77).save(
        tmp_path / 'deep.png')
    expected = dict.fromkeys(('gray', 'alpha', 'deep'), rgb)
    expected['turned'] = np.rot90(rgb, -1)
    for name, pixels in expected.items():
        for image in (tmp_path / f'{name}.png',
                      Image.open(tmp_path / f'{name}.png')):
            close(embed(encoder, image, size=0).embeddings,
                  embed(encoder, pixels.copy(), size=0).embeddings)


@pytest.mark.parametrize('side', [1, 3])
def test_images_smaller_than_the_stride(side, encoder):
    pixels = np.full((side, side, 3), 99, np.uint8)
    for size in (side, 0, None):
        found = embed(encoder, pixels, size=size).embeddings
        assert found.shape == (1, 20) and np.isfinite(found).all()
