# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Any file ends in one line that names it, or in the pixels of the picture."""
import os

import mmcv
import numpy as np
import pytest
from mmengine.registry import TRANSFORMS

from qbheat_mm.errors import UserError

from .conftest import FORMATS, decode_with_pillow, draw, encode

LOADER = dict(type='LoadImageFromFile', _scope_='qbheat_mm')
# What no decoder can notice: damage inside of data without check sums.
HIDDEN = {(ending, how) for ending in FORMATS if ending != 'png'
          for how in ('zeros', 'noise', 'cut, then padded', 'a part lost')}
HIDDEN -= {('jpg', 'cut, then padded'), ('jpg', 'a part lost')}


def load(path, **settings):
    return TRANSFORMS.build(dict(LOADER, **settings))(
        dict(img_path=str(path)))['img']


def refusal(path, **settings):
    with pytest.raises(UserError) as error:
        load(path, **settings)
    line = str(error.value)
    assert '\n' not in line and line.isprintable()
    assert repr(str(path)) in line
    return line


def spoil(content, random, how):
    """One way to damage a file."""
    place = int(random.integers(1, len(content)))
    if how == 'cut':
        return content[:place]
    if how == 'cut, then padded':
        return content[:place] + bytes(len(content) - place)
    if how == 'zeros':
        return content[:place] + bytes(64) + content[place + 64:]
    if how == 'noise':
        return content[:place] + random.bytes(64) + content[place + 64:]
    if how == 'a part lost':
        return content[:place] + content[place + 50:]
    if how == 'a head lost':
        return content[place:]
    raise ValueError(how)


@pytest.mark.parametrize('ending', FORMATS)
@pytest.mark.parametrize('how', ['cut', 'cut, then padded', 'zeros', 'noise',
                                 'a part lost', 'a head lost'])
def test_a_spoilt_file_is_named_or_loads_unchanged(tmp_path, ending, how):
    random = np.random.default_rng(sorted(FORMATS).index(ending))
    for seed in range(5):
        sound = encode(draw(seed=seed), FORMATS[ending])
        path = tmp_path / f'{seed}.{ending}'
        path.write_bytes(spoil(sound, random, how))
        try:
            found = load(path)
        except UserError as error:
            assert repr(str(path)) in str(error)
            continue
        if (ending, how) not in HIDDEN:
            np.testing.assert_array_equal(found, decode_with_pillow(sound))


@pytest.mark.parametrize('ending', FORMATS)
def test_a_sound_file_has_the_pixels_that_pillow_finds(tmp_path, ending):
    content = encode(draw(), FORMATS[ending])
    path = tmp_path / f'a.{ending}'
    path.write_bytes(content)
    np.testing.assert_array_equal(load(path), decode_with_pillow(content))


@pytest.mark.parametrize('options', [
    dict(progressive=True), dict(restart_marker_blocks=2),
    dict(optimize=True), dict(subsampling=0), dict(quality=1)])
def test_jpeg_files_of_every_kind(tmp_path, options):
    sound = encode(draw(), **options)
    # Any number of 0xff may stand before a marker.
    frame = max(sound.find(b'\xff\xc0'), sound.find(b'\xff\xc2'))
    filled = sound[:frame] + b'\xff' * 5 + sound[frame:]
    for i, content in enumerate((sound, filled)):
        (tmp_path / f'{i}.jpg').write_bytes(content)
        np.testing.assert_array_equal(
            load(tmp_path / f'{i}.jpg'), decode_with_pillow(sound))
    (tmp_path / 'cut.jpg').write_bytes(sound[:-2])
    assert 'is cut' in refusal(tmp_path / 'cut.jpg')


def test_what_follows_the_picture_does_no_harm(tmp_path):
    sound = encode(draw())
    random = np.random.default_rng(0)
    for _ in range(20):
        # The video of a motion photo holds every pair of bytes.
        video = random.bytes(300_000) + b'\xff\xda\xff\xd8'
        (tmp_path / 'a.jpg').write_bytes(sound + video)
        np.testing.assert_array_equal(
            load(tmp_path / 'a.jpg'), decode_with_pillow(sound))


def test_damage_that_the_decoder_covers_up(tmp_path):
    sound = encode(draw(160, 160), quality=90)
    middle = len(sound) // 2
    path = tmp_path / 'a.jpg'
    path.write_bytes(sound[:middle] + sound[middle + 200:])
    assert 'is damaged (Corrupt JPEG data' in refusal(path)
    assert "ignore_empty='damage'" in refusal(path)
    assert load(path, ignore_empty='damage').shape == (160, 160, 3)
    path.write_bytes(b'no image')
    refusal(path, ignore_empty='damage')


def test_what_others_print_meanwhile_is_not_lost(tmp_path, capfd,
                                                 monkeypatch):
    sound = encode(draw(160, 160), quality=90)
    middle = len(sound) // 2
    path = tmp_path / 'a.jpg'
    path.write_bytes(sound[:middle] + sound[middle + 200:])
    decode = mmcv.imfrombytes

    def talk(*arguments, **options):
        os.write(2, b'another thread\n')
        return decode(*arguments, **options)

    monkeypatch.setattr(mmcv, 'imfrombytes', talk)
    refusal(path)
    assert capfd.readouterr().err == 'another thread\n'


def test_a_colour_profile_that_is_wrong_changes_no_pixel(tmp_path, capfd):
    sound = encode(draw(), icc_profile=b'profile' * 20)
    content = sound.replace(b'ICC_PROFILE\0\1\1', b'ICC_PROFILE\0\1\2')
    assert content != sound
    (tmp_path / 'a.jpg').write_bytes(content)
    np.testing.assert_array_equal(
        load(tmp_path / 'a.jpg'), decode_with_pillow(sound))


def test_what_is_no_file(tmp_path):
    os.mkfifo(tmp_path / 'pipe.jpg')
    (tmp_path / 'folder.jpg').mkdir()
    (tmp_path / 'link.jpg').symlink_to('nowhere.jpg')
    (tmp_path / 'empty.jpg').touch()
    for name, what in (('pipe', 'is a pipe'), ('folder', 'is a folder'),
                       ('link', 'cannot be read (No such file'),
                       ('empty', 'is empty')):
        assert what in refusal(tmp_path / f'{name}.jpg')
    assert 'is a device' in refusal('/dev/zero')
    for path in (None, 3, ['a.jpg'], 'a\0.jpg', 'a' * 5000 + '.jpg'):
        with pytest.raises(UserError, match='^image .* cannot be read'):
            TRANSFORMS.build(LOADER)(dict(img_path=path))


def test_names_stay_in_one_line(tmp_path):
    for name in ('a\nb.jpg', 'a\rb.jpg', "a'b.jpg", os.fsdecode(b'\xff.jpg')):
        path = tmp_path / name
        path.write_bytes(b'no image')
        assert refusal(path).encode()


@pytest.mark.parametrize('form', ['JPEG', 'PNG', 'GIF', 'BMP'])
def test_bombs_are_refused_before_they_unpack(tmp_path, form):
    content = bytearray(encode(draw(), form))
    place, size = dict(
        JPEG=(content.find(b'\xff\xc0') + 5, b'\xff\xf0\xff\xf0'),
        PNG=(16, b'\0\1\0\0\0\1\0\0'), GIF=(6, b'\xff\xff\xff\xff'),
        BMP=(18, b'\0\0\1\0\0\0\1\0'))[form]
    content[place:place + len(size)] = size
    (tmp_path / 'a').write_bytes(content)
    line = refusal(tmp_path / 'a')
    if form == 'JPEG':
        assert 'is too large (65520 x 65520 pixels' in line


def test_only_bad_images_stop_although_they_are_skipped(tmp_path):
    loader = TRANSFORMS.build(dict(LOADER, ignore_empty=True))
    with pytest.raises(UserError, match=r"100 in a row were bad.*'b\.jpg'"):
        for _ in range(200):
            assert loader(dict(img_path='b.jpg')) is None


@pytest.mark.parametrize('settings', [
    dict(color_type='colour'), dict(imdecode_backend='cv3'),
    dict(ignore_empty='yes')])
def test_settings_that_are_unknown(settings):
    (name, value), = settings.items()
    with pytest.raises(UserError, match=f"{name}='{value}'"):
        TRANSFORMS.build(dict(LOADER, **settings))


def test_an_image_that_is_loaded_already_passes():
    image = draw()
    results = TRANSFORMS.build(LOADER)(dict(img=image))
    assert results['img'] is image
    assert results['ori_shape'] == results['img_shape'] == (48, 64)
