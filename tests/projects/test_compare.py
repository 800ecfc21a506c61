"""One page says which encoder to use."""
import cv2
import numpy as np
import pytest

from projects.real_images import compare
from qbheat_mm.errors import UserError

from ..apis.conftest import MODEL, settings_of, write_checkpoint


def scores(**by_name):
    return {name: {30: [few], 300: [many]}
            for name, (few, many) in by_name.items()}


@pytest.mark.parametrize('count, said', [
    (30, 'With 30 labels, use learned (40.0 % right).'),
    # Thumbnails are not two points worse, and cost nothing.
    (300, 'With 300 labels, use thumbnails (80.5 % right; learned has 82.0 %, '
     'not 2 points more).')])
def test_the_cheapest_that_is_good_enough_is_recommended(count, said):
    assert compare.advise(scores(
        thumbnails=(20., 80.5), HOG=(30., 70.), learned=(40., 82.)),
        count, images=100) == said
    # One of 20 images is five points.
    assert 'use thumbnails (50.0 % right; learned has 55.0 %, not 10' in (
        compare.advise(scores(thumbnails=(50., 0.), learned=(55., 0.)), 30,
                       images=20))


@pytest.mark.parametrize('judge', [compare.ridge, compare.ridge_or_svm])
def test_no_class_is_left_without_a_label(judge, monkeypatch):
    labels = np.arange(40).repeat(4)
    parts = dict(exact=np.eye(40)[labels])
    monkeypatch.setattr(compare, 'COUNTS', (30, 40, 120))
    found = compare.accuracies(judge, parts, labels, parts, labels)
    assert found == {40: [100.] * 3, 120: [100.] * 3, 160: [100.]}


def test_a_rare_class_does_not_cost_the_svm():
    angles, labels = np.arange(60.), np.arange(60) // 29  # 29, 29 and 2
    rings = (1 + labels)[:, None] * np.stack(
        [np.cos(angles), np.sin(angles)], 1)
    data = dict(rings=rings), labels
    assert compare.ridge(*data, *data) < 70
    assert compare.ridge_or_svm(*data, *data) > 90


@pytest.mark.parametrize('names', [
    ['a/encoder', 'b/encoder'], ['HOG=a/encoder'], ['timm/net=a/encoder']])
def test_names_of_encoders_are_clear(names, monkeypatch):
    monkeypatch.setattr(compare, 'load_encoder', lambda file: file)
    assert compare.load_encoders(['x=lr=0.1/encoder', 'b/encoder.pth']) == {
        'x': 'lr=0.1/encoder', 'encoder': 'b/encoder.pth'}
    with pytest.raises(UserError, match='write OTHER=[ab]/encoder$'):
        compare.load_encoders(names)


def test_a_page_compares_encoders(tmp_path, monkeypatch, forget):
    for part, number in (('train', 8), ('val', 2)):
        for name, color in (('dark', 40), ('light', 210)):
            (tmp_path / part / name).mkdir(parents=True)
            for i in range(number):
                cv2.imwrite(str(tmp_path / part / name / f'{i}.png'),
                            np.full((40, 48, 3), color + i, np.uint8))
    encoder = tmp_path / 'epoch_1.pth'
    write_checkpoint(encoder, MODEL, settings_of())
    monkeypatch.setattr(compare, 'COUNTS', (4, ))
    monkeypatch.setattr(compare, 'SHOWN', 2)
    config = tmp_path / 'short.py'
    config.write_text(f"_base_ = ['{compare.CONFIG}']\nsteps = 2\n")
    monkeypatch.setattr(compare, 'CONFIG', config)
    monkeypatch.setattr('sys.argv', [
        'compare.py', str(tmp_path), '--out', str(tmp_path / 'out'),
        '--encoders', f'ours={encoder}'])
    compare.main()
    page = (tmp_path / 'out/index.html').read_text('utf-8')
    for name in ('thumbnails', 'HOG', 'random weights', 'ours'):
        assert f'nearest, {name}' in page
    # Brightness is all there is to see.
    assert 'With 16 labels, use thumbnails (100.0 % right).' in page
    monkeypatch.setattr(compare, 'MAX_IMAGES', 10)
    compare.main()
    assert 'With 10 labels' in (tmp_path / 'out/index.html').read_text('utf-8')
    (tmp_path / 'val/light').rename(tmp_path / 'val/bright')
    with pytest.raises(UserError, match="has .'bright', 'light'.$"):
        compare.main()
