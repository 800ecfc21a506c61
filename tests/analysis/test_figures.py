# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pictures show the values that they were given, where they belong."""
from io import StringIO

import numpy as np
import pytest
import torch

matplotlib = pytest.importorskip('matplotlib')

from qbheat_mm.analysis.detections import Boxes, match_boxes  # noqa: E402
from qbheat_mm.analysis.figures.attention import (  # noqa: E402
    Panel,
    draw_attention,
)
from qbheat_mm.analysis.figures.correlation import (  # noqa: E402
    draw_histograms,
)
from qbheat_mm.analysis.figures.curves import draw_curves  # noqa: E402
from qbheat_mm.analysis.figures.detections import (  # noqa: E402
    draw_confusions,
    draw_sizes,
)
from qbheat_mm.analysis.figures.detections import (  # noqa: E402
    draw_errors as draw_detection_errors,
)
from qbheat_mm.analysis.figures.heat_flow import (  # noqa: E402
    Rollout,
    draw_errors,
    draw_rollouts,
)
from qbheat_mm.analysis.figures.reconstruction import (  # noqa: E402
    Row,
    draw_reconstructions,
)
from qbheat_mm.analysis.figures.spectrum import (  # noqa: E402
    draw_energy_ratios,
    draw_spectra,
)


def image_of(axis):
    image, = axis.images
    return np.asarray(image.get_array())


def lines_of(axis):
    """Label to points of the lines of a panel."""
    return {line.get_label(): np.stack(line.get_data(), 1).astype(float)
            for line in axis.lines}


def picture(value):
    return np.full((4, 6, 3), value, np.uint8)


@pytest.mark.parametrize('scales', [('quarter', 'half'), ('half', )])
def test_eigenvalues_by_rank_and_in_the_plane(scales):
    torch.manual_seed(0)
    values = {scale: {name: torch.view_as_complex(torch.randn(5, 2))
                      for name in 'AB'} for scale in scales}
    norms = {scale: dict(A=1., B=2.) for scale in scales}
    axes = draw_spectra(values, norms).axes
    columns = len(axes) // 2
    assert columns == 1 + len(scales)
    for row, name in enumerate('AB'):
        first, *middle, last = axes[row * columns:(row + 1) * columns]
        for axis in (first, last):
            assert rf'\Delta {name}' in axis.get_title()
        for scale in scales:
            step = dict(quarter='W/4', half='W/2')[scale]
            found = values[scale][name]
            line, = (points for label, points in lines_of(first).items()
                     if step in label)
            np.testing.assert_allclose(line[:, 1], found.abs(), rtol=1e-6)
            line, = (points for label, points in lines_of(last).items()
                     if step in label)
            np.testing.assert_allclose(
                line, torch.view_as_real(found), rtol=1e-6)
            (left, right), (low, high) = last.get_xlim(), last.get_ylim()
            assert left <= min(line[:, 0]) and max(line[:, 0]) <= right
            assert low <= min(line[:, 1]) and max(line[:, 1]) <= high
        for axis in middle:  # of sums of one
            points = lines_of(axis)['k-th eigenvalues']
            np.testing.assert_allclose(points.sum(0), 1, rtol=1e-5)
            quarter = values['quarter'][name].abs()
            np.testing.assert_allclose(
                points[:, 0], sorted(quarter / quarter.sum())[::-1],
                rtol=1e-5)


def test_energy_ratios_by_epoch():
    axis, = draw_energy_ratios(
        [100, 200], dict(quarter=[.8, .7], half=[.9, 1.3]), 'step').axes
    assert axis.get_xlabel() == 'step'
    lines = lines_of(axis)
    assert lines[r'$\Delta$ = W/4'].tolist() == [[100, .8], [200, .7]]
    assert lines[r'$\Delta$ = W/2'].tolist() == [[100, .9], [200, 1.3]]
    low, high = axis.get_ylim()
    assert low <= .7 and high >= 1.3


def test_colours_of_confusions_are_shares_and_numbers_are_counts():
    table = np.array([[3, 1, 0], [0, 2, 2], [5, 0, 0]])
    axes = draw_confusions(table, ['cat', 'dog']).axes[0]
    np.testing.assert_allclose(
        image_of(axes), [[.75, .25, 0], [0, .5, .5], [1, 0, 0]])
    for text in axes.texts:
        column, row = text.get_position()
        assert text.get_text() == str(table[row, column])
    assert len(axes.texts) == 9
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        'cat', 'dog', 'missed']
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        'cat', 'dog', 'nothing']
    assert axes.get_xlabel() == 'found as'


def test_recall_and_ap_stand_side_by_side():
    axes = draw_sizes(dict(small=(1, 4), large=(0, 0)),
                      dict(small=.5, large=np.nan)).axes[0]
    recall, precision = axes.containers
    assert [bar.get_height() for bar in recall] == [.25, 0]
    assert [bar.get_height() for bar in precision] == [.5, 0]
    assert all(a.get_x() + a.get_width() <= b.get_x() + 1e-9
               for a, b in zip(recall, precision))
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        'small\n4 objects', 'large\n0 objects']


def test_maps_of_tokens_to_their_own_maximum_and_pixels_as_they_are():
    maps = np.array([[[.1, .2]], [[.3, .4]]])
    panels = [Panel('block 1, head 1', [2, 5], maps),
              Panel('block 2, head 1', [2, 5], maps / 2)]
    shown = {}
    for bridge in ('mobile_to_former', 'former_to_mobile'):
        figure = draw_attention(bridge, picture(7), dict(this=panels))
        *drawn, image, _, _ = (axis for axis in figure.axes)
        assert [axis.get_title() for axis in drawn] == [
            'token 2', 'token 5', '', '']
        assert [axis.get_ylabel() for axis in drawn[::2]] == [
            'block 1, head 1', 'block 2, head 1']
        assert np.all(image_of(image) == 7)
        assert {axis.images[0].get_clim() for axis in drawn} == {(0, 1)}
        shown[bridge] = np.array([image_of(axis) for axis in drawn])
    np.testing.assert_allclose(
        shown['former_to_mobile'], np.concatenate([maps, maps / 2]))
    np.testing.assert_allclose(
        shown['mobile_to_former'],
        np.tile(maps / maps.max((1, 2), keepdims=True), (2, 1, 1)))


def test_flows_begin_where_their_start_is_marked():
    fields = {'features': np.full((2, 3, 3), .25),
              'flow': np.full((2, 3, 3), .75)}
    figure = draw_rollouts([Rollout(picture(i), fields, (2, i))
                            for i in range(2)])
    for i in range(2):
        image, *flows = figure.axes[3 * i:3 * i + 3]
        assert np.all(image_of(image) == i) and not image.lines
        for axis, value in zip(flows, (.25, .75)):
            assert np.all(image_of(axis) == value)
            assert {tuple(line.get_xydata()[0]) for line in axis.lines} == {
                (2, i)}
    assert [axis.get_title() for axis in figure.axes] == [
        'image', 'features', 'flow', '', '', '']


def test_errors_by_distance_and_direction():
    def found(factor):
        return {name: dict(flow=np.arange(3) * factor * i,
                           constant=np.full(3, factor))
                for i, name in enumerate(('right', 'down', 'right_down'), 1)}

    axes = draw_errors(dict(exact=found(1.), euler=found(.5)),
                       dict(right=2, down=None, right_down=1)).axes
    for i, (axis, trained) in enumerate(zip(axes, (2, None, 1)), 1):
        lines = lines_of(axis)
        np.testing.assert_allclose(
            lines['linear flow (exact)'][:, 1], np.arange(3) * i)
        np.testing.assert_allclose(
            lines['linear flow (euler)'][:, 1], np.arange(3) * i / 2)
        assert np.all(lines['constant (A = B = 0)'][:, 1] == 1)
        assert ('trained step' in lines) == (trained is not None)
        if trained is not None:
            assert np.all(lines['trained step'][:, 0] == trained)


def test_reconstructions_stand_under_their_titles():
    kinds = dict(original=1, given=2, contrast=3, true=4)
    rows = [Row(name, error, {kind: picture(10 * i + value)
                              for kind, value in kinds.items()})
            for i, (name, error) in enumerate([('a', .5), ('b', .25)])]
    axes = draw_reconstructions(rows).axes
    assert [int(image_of(axis)[0, 0, 0]) for axis in axes] == [
        1, 2, 3, 4, 11, 12, 13, 14]
    assert axes[0].get_ylabel() == 'a\nerror 0.500'
    assert axes[4].get_ylabel() == 'b\nerror 0.250'
    # What was given beforehand has a frame.
    assert [axis.spines['left'].get_visible() for axis in axes] == [
        False, False, False, True] * 2


@pytest.mark.parametrize('name, shown', [
    ('$5 and $6.jpg', '$5 and $6.jpg'), ('a$b_{$', 'a$b_{$'),
    ('caf\udce9', 'caf\ufffd')])
def test_names_of_files_and_classes_are_shown_as_they_are(name, shown):
    """Not as mathematics between dollars, nor as an error."""
    box = Boxes([[0, 0, 3, 3]], [0])
    missed = match_boxes(box, Boxes(np.zeros((0, 4)), [], []))
    panels = [Panel('block 1, head 1', [2], np.ones((1, 1, 2)))]
    figures = [
        draw_reconstructions([Row(name, .5, dict.fromkeys(
            ('original', 'given', 'contrast', 'true'), picture(1)))]),
        draw_attention('mobile_to_former', picture(1), {name: panels}),
        draw_histograms({name: np.array([.1, .3])}),
        draw_curves(dict(rate={name: [(1, 3.)], 'b': [(1, 2.)]})),
        draw_confusions(np.ones((2, 2), int), [name]),
        draw_detection_errors([picture(1)], [missed], [name])]
    for figure in figures:
        drawn = StringIO()
        with matplotlib.rc_context({'svg.fonttype': 'none'}):
            figure.savefig(drawn, format='svg')
        assert shown in drawn.getvalue()


def test_histograms_of_one_range_with_their_means():
    axis, = draw_histograms(
        dict(one=np.array([.1, .3]), two=np.array([.55, .57, .59])),
        dict(one=.05, two=.08)).axes
    assert axis.get_xlim() == (0, pytest.approx(.7))
    labels = [text.get_text() for text in axis.get_legend().get_texts()]
    assert labels == ['one (mean 0.200)', 'two (mean 0.570)',
                      'unrelated positions']
    assert [line.get_xdata()[0] for line in axis.lines] == [.05, .08]
    bars = [sum(bar.get_height() for bar in patches)
            for patches in axis.containers if len(patches) > 1]
    assert bars == [2, 3]


def test_curves_stand_in_the_panels_of_their_names():
    curves = dict(loss=dict(all=[(1, .5), (2, .4)], masks=[(2, .1)]),
                  rate=dict(lr=[(1, 3.)]))
    loss, rate, empty = draw_curves(curves).axes
    assert loss.get_title() == 'loss' and rate.get_title() == 'rate'
    assert {label: points.tolist()
            for label, points in lines_of(loss).items()} == {
        'all': [[1, .5], [2, .4]], 'masks': [[2, .1]]}
    assert lines_of(rate)['lr'].tolist() == [[1, 3]]
    assert not empty.axison
