# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a detector confuses and misses, on boxes whose fate is known."""
import numpy as np
import pytest

from qbheat_mm.analysis.detections import (
    Boxes,
    confusions,
    draw_confusions,
    draw_errors,
    draw_sizes,
    match_boxes,
    recall_by_size,
)


def boxes(*rows, scores=None):
    return Boxes([row[:4] for row in rows], [row[4] for row in rows],
                 None if scores is None else np.array(scores))


TRUTH = boxes((0, 0, 20, 20, 0), (40, 0, 80, 40, 1), (0, 100, 120, 220, 1))


def test_found_confused_missed_and_invented():
    found = boxes((0, 0, 20, 19, 0), (41, 0, 80, 40, 0),
                  (200, 200, 210, 210, 1), scores=[.9, .8, .7])
    match = match_boxes(TRUTH, found)
    assert match.of_truth.tolist() == [0, 1, -1]
    assert match.correct.tolist() == [True, False, False]
    assert match.num_errors == 3
    assert confusions([match], 2).tolist() == [
        [1, 0, 0], [1, 0, 1], [0, 1, 0]]
    assert recall_by_size([match]) == dict(
        small=(1, 1), medium=(0, 1), large=(0, 1))


def test_sizes_are_those_of_the_areas_where_there_are_any():
    """A thin diagonal in a large box is a small object to COCO."""
    thin = Boxes(TRUTH.corners, TRUTH.labels, areas=[400, 900, 5000])
    found = boxes((0, 100, 120, 220, 1), scores=[.9])
    assert recall_by_size([match_boxes(thin, found)]) == dict(
        small=(0, 2), medium=(1, 1), large=(0, 0))
    assert thin[np.array([False, True, True])].areas.tolist() == [900, 5000]


def test_a_box_of_the_right_class_goes_before_a_better_one_of_another():
    found = boxes((40, 0, 80, 40, 0), (42, 0, 80, 40, 1), scores=[.9, .4])
    match = match_boxes(TRUTH, found)
    assert match.of_truth.tolist() == [-1, 1, -1]
    assert match.of_found.tolist() == [-1, 1]


def test_a_box_finds_one_object():
    truth = boxes((0, 0, 40, 40, 0), (0, 0, 40, 30, 1))
    match = match_boxes(truth, boxes((0, 0, 40, 38, 0), scores=[.9]))
    assert match.of_truth.tolist() == [0, -1]
    assert match.of_found.tolist() == [0]


def test_an_object_is_found_once():
    found = boxes((0, 0, 20, 20, 0), (0, 0, 20, 20, 0), scores=[.9, .8])
    assert match_boxes(TRUTH, found).of_found.tolist() == [0, -1]


def test_what_lies_on_a_crowd_is_neither_right_nor_wrong():
    """COCO's rule: of its class, by the share of the found box."""
    crowds = boxes((100, 0, 200, 100, 0))
    found = boxes((0, 0, 20, 20, 0),  # an object
                  (110, 10, 130, 30, 0),  # inside the crowd
                  (90, 40, 110, 60, 0),  # half of it inside
                  (80, 40, 105, 60, 0),  # a fifth of it
                  (110, 10, 130, 30, 1),  # inside, of another class
                  scores=[.9, .8, .7, .6, .5])
    match = match_boxes(TRUTH, found, crowds=crowds)
    assert match.found.scores.tolist() == [.9, .6, .5]
    assert match.of_found.tolist() == [0, -1, -1]
    assert match.num_errors == 2 + 2  # and two objects that were missed


def test_an_object_in_a_crowd_keeps_its_box():
    crowds = boxes((0, 0, 100, 100, 0))
    found = boxes((0, 0, 20, 20, 0), (30, 30, 50, 50, 0), scores=[.9, .8])
    match = match_boxes(TRUTH, found, crowds=crowds)
    assert match.of_truth.tolist() == [0, -1, -1] and len(match.found) == 1


@pytest.mark.parametrize('truth,found', [
    (boxes(), boxes(scores=[])), (TRUTH, boxes(scores=[])),
    (boxes(), boxes((0, 0, 9, 9, 1), scores=[.5]))])
def test_nothing_is_there_or_found(truth, found):
    match = match_boxes(truth, found)
    assert not match.correct.any()
    assert match.num_errors == len(truth) + len(found)
    assert confusions([match], 2).sum() == match.num_errors


def test_only_what_is_sure_enough_counts_the_best_first():
    found = boxes((0, 0, 9, 9, 0), (1, 0, 9, 9, 1), (2, 0, 9, 9, 1),
                  scores=[.2, .5, .9])
    assert found.above(0.3).scores.tolist() == [.9, .5]
    assert found.above(0.3).corners[:, 0].tolist() == [2, 1]


def test_errors_are_drawn_into_their_image():
    found = boxes((0, 0, 20, 20, 0), (41, 0, 80, 40, 0), scores=[.9, .8])
    picture = np.full((230, 230, 3), 90, np.uint8)
    figure = draw_errors([picture] * 5, [match_boxes(TRUTH, found)] * 5,
                         ['cat', 'dog'])
    assert [len(axes.images) for axes in figure.axes] == [1] * 5 + [0] * 3
    first = figure.axes[0]
    # What was found as what it is says nothing.
    assert [text.get_text() for text in first.texts] == [
        'dog', 'dog', 'cat 0.80']
    assert [line.get_linestyle() for line in first.lines] == [
        '--', '--', '-']


def test_colors_of_confusions_are_shares_and_numbers_are_counts():
    table = np.array([[3, 1, 0], [0, 2, 2], [5, 0, 0]])
    axes = draw_confusions(table, ['cat', 'dog']).axes[0]
    np.testing.assert_allclose(
        axes.images[0].get_array(), [[.75, .25, 0], [0, .5, .5], [1, 0, 0]])
    for text in axes.texts:
        column, row = text.get_position()
        assert text.get_text() == str(table[row, column])
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        'cat', 'dog', 'missed']
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        'cat', 'dog', 'nothing']


def test_recall_and_ap_by_size():
    axes = draw_sizes(dict(small=(1, 4), large=(0, 0)),
                      dict(small=.5, large=np.nan)).axes[0]
    recall, precision = axes.containers
    assert [bar.get_height() for bar in recall] == [.25, 0]
    assert [bar.get_height() for bar in precision] == [.5, 0]
    assert [label.get_text() for label in axes.get_xticklabels()] == [
        'small\n4 objects', 'large\n0 objects']
