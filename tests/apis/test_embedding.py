# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Embeddings of whatever holds images."""
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


def test_a_folder(encoder, checkpoint, folders):
    found = embed(encoder, folders / 'train')
    assert found.embeddings.shape == (12, 20) and len(found) == 12
    assert found.embeddings.dtype == np.float32
    assert found.files[0] == str(folders / 'train' / 'blue' / '0.png')
    again = embed(checkpoint, str(folders / 'train'), batch_size=5, workers=1)
    assert again.files == found.files
    np.testing.assert_allclose(again.embeddings, found.embeddings, atol=1e-5)


def test_all_kinds_of_the_same_picture(encoder, picture, tmp_path):
    file = tmp_path / 'x.png'
    mmcv.imwrite(mmcv.rgb2bgr(picture), str(file))
    tensor = torch.from_numpy(picture).permute(2, 0, 1)
    kinds = [str(file), file, picture, tensor, Image.fromarray(picture),
             picture[None], tensor[None]]
    expected = encoder.pool(encoder(encoder.normalize(tensor[None])))[0]
    for kind in kinds:
        found = embed(encoder, kind)
        np.testing.assert_allclose(
            found.embeddings[0], expected.detach(), rtol=1e-4, atol=1e-5)
    found = embed(encoder, kinds)
    assert len(found) == 7 and np.ptp(found.embeddings, axis=0).max() < 1e-5
    assert found.files == [str(file), str(file), *(
        f'[{i}]' for i in range(2, 7))]


def test_batches_of_any_size(encoder, picture):
    batch = np.stack([picture, 255 - picture, picture // 2])
    whole = embed(encoder, batch).embeddings
    one_by_one = embed(encoder, list(batch), batch_size=1).embeddings
    np.testing.assert_allclose(one_by_one, whole, rtol=1e-4, atol=1e-5)


def test_sizes(encoder, picture, monkeypatch):
    wide = np.concatenate([picture, picture], axis=1)
    tall = np.concatenate([picture, picture])
    # By default the size of the training, 32: the middle of the image.
    for image, middle in ((wide, wide[:, 16:48]), (tall, tall[16:48])):
        np.testing.assert_allclose(
            embed(encoder, image).embeddings,
            embed(encoder, middle).embeddings, rtol=1e-5)
    shapes = {0: (32, 64), (32, 64): (32, 64), 64: (64, 64)}
    for size in (*shapes, None):
        if size is None:  # and the size of the training is not known
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
        np.testing.assert_allclose(
            row, embed(encoder, file, size=0).embeddings[0], atol=1e-5)


def test_a_file_that_cannot_be_decoded_is_named(encoder, picture, tmp_path,
                                                caplog):
    mmcv.imwrite(picture, str(tmp_path / 'a.png'))
    (tmp_path / 'b.png').write_bytes(
        (tmp_path / 'a.png').read_bytes()[:500])
    with caplog.at_level(logging.WARNING):
        found = embed(encoder, tmp_path)
    assert found.files == [str(tmp_path / 'a.png')]
    with pytest.raises(UserError, match='none of 1 images could be read'):
        embed(encoder, tmp_path / 'b.png')


@pytest.mark.parametrize('images', [
    np.zeros((4, 4, 3)), np.zeros((4, 4), np.uint8),
    torch.zeros(4, 4, 3, dtype=torch.uint8),
    np.zeros((0, 4, 4, 3), np.uint8), [3], [], 'nowhere'], ids=type)
def test_what_is_no_image_is_refused(encoder, images):
    with pytest.raises(UserError, match='no image|not exist'):
        embed(encoder, images)


@pytest.mark.parametrize('arguments', [
    dict(size=-1), dict(size=(1, 2, 3)), dict(pool='x')], ids=str)
def test_impossible_arguments_are_named(encoder, picture, arguments):
    with pytest.raises(UserError, match=f'{next(iter(arguments))}='):
        embed(encoder, picture, **arguments)


def test_the_random_state_of_the_caller_stays(encoder, folders):
    torch.manual_seed(3)
    state = torch.get_rng_state()
    embed(encoder, folders / 'val')
    assert torch.equal(state, torch.get_rng_state())


def test_an_encoder_that_is_being_trained_is_evaluated(checkpoint, folders):
    """And left as it was, its statistics too."""
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
    found = embed(encoder, folders / 'train').embeddings
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert encoder.training and encoder.backbone.training
    assert not frozen.training
    for name, value in encoder.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_a_picture_of_pil_is_upright_as_its_file_is(checkpoint, tmp_path):
    encoder = load_encoder(checkpoint)
    pixels = np.random.default_rng(0).integers(0, 255, (3, 4, 3), np.uint8)
    picture = Image.fromarray(pixels).resize((48, 32))
    turned = Image.Exif()
    turned[0x0112] = 6
    picture.save(tmp_path / 'turned.png', exif=turned)
    files, pictures = (embed(encoder, image, size=0).embeddings for image in (
        tmp_path / 'turned.png', Image.open(tmp_path / 'turned.png')))
    np.testing.assert_allclose(files, pictures, atol=1e-5)


def test_a_cut_picture_of_pil_is_told(checkpoint, tmp_path):
    Image.new('RGB', (64, 64)).save(tmp_path / 'whole.jpg')
    content = (tmp_path / 'whole.jpg').read_bytes()
    (tmp_path / 'cut.jpg').write_bytes(content[:-40])
    with pytest.raises(UserError, match=r"cut\.jpg' cannot be decoded"):
        embed(checkpoint, Image.open(tmp_path / 'cut.jpg'))
