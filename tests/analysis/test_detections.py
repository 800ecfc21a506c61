# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a detector confuses and misses, on boxes whose fate is known."""
import pytest
import torch
from mmengine.structures import InstanceData

from qbheat_mm.analysis.detections import (
    confusions,
    match_boxes,
    recall_by_size,
)


def boxes(*rows, **fields):
    """Rows of x1, y1, x2, y2 and class."""
    values = torch.tensor(rows, dtype=torch.float64).view(-1, 5)
    return InstanceData(bboxes=values[:, :4], labels=values[:, 4].long(), **{
        name: torch.tensor(value) for name, value in fields.items()})


def match(truth, found, crowds=()):
    return match_boxes(truth, found, boxes(*crowds))


TRUTH = boxes((0, 0, 20, 20, 0), (40, 0, 80, 40, 1), (0, 100, 120, 220, 1),
              areas=[400., 1600., 14400.])


def test_found_confused_missed_and_invented():
    found = boxes((0, 0, 20, 19, 0), (41, 0, 80, 40, 0),
                  (200, 200, 210, 210, 1), scores=[.9, .8, .7])
    result = match(TRUTH, found)
    assert result.of_truth.tolist() == [0, 1, -1]
    assert result.correct.tolist() == [True, False, False]
    assert result.num_errors == 3
    assert confusions([result], 2).tolist() == [
        [1, 0, 0], [1, 0, 1], [0, 1, 0]]
    assert recall_by_size([result]) == dict(
        small=(1, 1), medium=(0, 1), large=(0, 1))


def test_a_box_of_the_right_class_goes_before_a_better_one_of_another():
    found = boxes((40, 0, 80, 40, 0), (42, 0, 80, 40, 1), scores=[.9, .4])
    result = match(TRUTH, found)
    assert result.of_truth.tolist() == [-1, 1, -1]
    assert result.of_found.tolist() == [-1, 1]


def test_a_box_finds_one_object_and_an_object_is_found_once():
    truth = boxes((0, 0, 40, 40, 0), (0, 0, 40, 30, 1))
    result = match(truth, boxes((0, 0, 40, 38, 0), scores=[.9]))
    assert result.of_truth.tolist() == [0, -1]
    found = boxes((0, 0, 20, 20, 0), (0, 0, 20, 20, 0), scores=[.9, .8])
    assert match(TRUTH, found).of_found.tolist() == [0, -1]


def test_what_lies_on_a_crowd_is_neither_right_nor_wrong():
    """COCO's rule: of its class, by the share of the found box."""
    found = boxes((110, 10, 130, 30, 0),  # inside the crowd
                  (0, 0, 20, 20, 0),  # an object
                  (90, 40, 110, 60, 0),  # half of it inside
                  (80, 40, 105, 60, 0),  # a fifth of it
                  (110, 10, 130, 30, 1),  # inside, of another class
                  scores=[.9, .8, .7, .6, .5])
    result = match(TRUTH, found, [(100, 0, 200, 100, 0)])
    assert result.found.scores.tolist() == pytest.approx([.8, .6, .5])
    assert result.of_found.tolist() == [0, -1, -1]
    assert result.of_truth.tolist() == [0, -1, -1]
    assert result.num_errors == 2 + 2  # and two objects that were missed


def test_an_object_in_a_crowd_keeps_its_box():
    found = boxes((0, 0, 20, 20, 0), (30, 30, 50, 50, 0), scores=[.9, .8])
    result = match(TRUTH, found, [(0, 0, 100, 100, 0)])
    assert result.of_truth.tolist() == [0, -1, -1] and len(result.found) == 1


@pytest.mark.parametrize('truth,found', [
    (boxes(), boxes(scores=[])), (TRUTH, boxes(scores=[])),
    (boxes(), boxes((0, 0, 9, 9, 1), scores=[.5]))])
def test_nothing_is_there_or_found(truth, found):
    result = match(truth, found)
    assert not result.correct.any()
    assert result.num_errors == len(truth) + len(found)
    assert confusions([result], 2).sum() == result.num_errors
