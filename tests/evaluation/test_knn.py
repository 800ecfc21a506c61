# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Nearest neighbors, against values computed by hand, and in a runner."""
import math
import uuid

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

from qbheat_mm.errors import UserError
from qbheat_mm.evaluation import (
    KNNAccuracy,
    knn,
    knn_accuracy,
    knn_classify,
)


def at(*degrees):
    """Points of different length in given directions."""
    angles = np.deg2rad(degrees)
    lengths = np.arange(1, len(degrees) + 1)[:, None]
    return lengths * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_the_length_does_not_matter():
    train, labels, queries = at(0, 90, 180), [2, 0, 1], at(10, 100, 170)
    for scale in (1, 1e30):  # whose square is beyond float32
        assert knn_classify(train * scale, labels, queries * scale,
                            k=1).tolist() == [2, 0, 1]
    assert knn_accuracy(torch.tensor(train).half(), torch.tensor(labels),
                        queries, [2, 0, 0], k=1) == pytest.approx(200 / 3)


def test_votes_are_weighted_by_the_exponential_similarity():
    # One neighbor at 0 degrees against two at 60, cos 1 and 0.5: these win
    # where exp(1 / T) < 2 exp(0.5 / T), that is for T > 0.5 / ln 2.
    train, labels, query = at(0, 60, -60), [1, 0, 0], at(0)
    border = 0.5 / math.log(2)
    for temperature, winner in ((border - 0.01, 1), (border + 0.01, 0),
                                (1e-4, 1)):
        assert knn_classify(train, labels, query, k=3,
                            temperature=temperature).tolist() == [winner]
        assert knn_accuracy(train, labels, query, [winner],
                            temperature=temperature) == 100


def test_the_defaults_are_those_of_the_papers():
    assert (knn.K, knn.TEMPERATURE) == (20, 0.07)
    # cos 1 against two at s: the border is s = 1 - 0.07 ln 2.
    for change, winner in ((-0.005, 0), (0.005, 1)):
        side = np.rad2deg(np.arccos(1 - 0.07 * math.log(2) + change))
        assert knn_classify(at(0, side, -side), [0, 1, 1],
                            at(0)).tolist() == [winner]
    # Of 25 neighbors in one direction 20 vote: the first 12 outnumber them.
    train, labels = at(*[0] * 12, *[40] * 13), [0] * 12 + [1] * 13
    assert knn_classify(train, labels, at(0), temperature=1e6).tolist() == [0]


def test_only_k_of_them_vote():
    train, labels = at(0, 20, 21, 22), [0, 1, 1, 1]
    for k, winner in ((1, 0), (3, 1), (20, 1)):
        assert knn_classify(train, labels, at(1), k, 10.).tolist() == [winner]
        assert knn_accuracy(train, labels, at(1), [winner], k, 10.) == 100


def test_no_image_is_its_own_neighbor(monkeypatch):
    train, labels = at(0, 1, 90, 91), [0, 1, 1, 1]
    for _ in range(2):
        assert knn_classify(train, labels, k=1).tolist() == [1, 0, 1, 1]
        assert knn_accuracy(train, labels, k=1) == 50
        monkeypatch.setattr(knn, 'CHUNK', 1)  # a row at a time


@pytest.mark.parametrize('arguments, message', [
    ((at(0, 1), [0], at(0)), r'labels of shape \(1,\)'),
    ((at(0), [0]), 'no neighbor'),
    ((at(0, 1) * np.nan, [0, 1], at(0)), 'NaN or infinite'),
    ((at(0, 1), [0, 1], at(0), 0), 'k=0'),
    ((at(0, 1), [0, 1], at(0), 1, 0.), 'temperature=0'),
])
def test_what_would_be_silently_wrong_is_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        knn_classify(*arguments)


def test_queries_and_their_labels_belong_together():
    for queries, labels in ((None, [1, 0]), (at(0, 1), None),
                            (at(0, 1), [0])):
        with pytest.raises(UserError):
            knn_accuracy(at(0, 1), [0, 1], queries, labels)


PIPELINE = [dict(type='LoadNamedImageFromFile'),
            dict(type='Resize', scale=(16, 16)), dict(type='PackInputs')]
MODEL = dict(
    type='ImageClassifier',
    data_preprocessor=dict(mean=[127.5] * 3, std=[64.] * 3, to_rgb=True),
    backbone=dict(
        type='MobileFormer', out_indices=(-2, -1),
        arch=dict(stem=4, tokens=(2, 8), stages=[[('mf-down', 8, 8)]],
                  conv=12)),
    neck=dict(type='PoolWithToken'), head=dict(type='EmbeddingHead'))


def make_runner(folders, work_dir, **metric):
    parts = [dict(type='NamedImageFolder', data_root=str(folders / split),
                  pipeline=PIPELINE) for split in ('train', 'val')]
    return Runner.from_cfg(Config(dict(
        default_scope='mmpretrain', model=MODEL, work_dir=str(work_dir),
        experiment_name=uuid.uuid4().hex, randomness=dict(seed=0),
        test_dataloader=dict(
            batch_size=4, num_workers=0,
            sampler=dict(type='DefaultSampler', shuffle=False),
            collate_fn=dict(type='default_collate'),
            dataset=dict(type='ConcatDataset', datasets=parts)),
        test_cfg=dict(), test_evaluator=dict(type='KNNAccuracy', **metric))))


def embeddings_of(runner):
    """Embeddings and labels of all images, without the metric."""
    runner.model.eval()
    loader, rows, labels = runner.test_dataloader, [], []
    for batch in loader:
        batch = runner.model.data_preprocessor(batch, False)
        with torch.no_grad():
            rows.append(runner.model.extract_feat(batch['inputs'])[-1])
        labels += [int(s.gt_label) for s in batch['data_samples']]
    return torch.cat(rows), torch.tensor(labels)


def test_images_of_the_bank_classify_the_others(folders, tmp_path):
    runner = make_runner(folders, tmp_path, bank=str(folders / 'train'), k=2)
    metrics = runner.test()
    rows, labels = embeddings_of(runner)
    assert len(rows) == 12 + 6
    expected = knn_accuracy(rows[:12], labels[:12], rows[12:], labels[12:],
                            k=2)
    assert metrics == {'knn/top1': pytest.approx(expected)}
    assert expected == 100  # even a random encoder tells colors apart


def test_each_image_by_all_the_others(folders, tmp_path):
    runner = make_runner(folders, tmp_path, k=4)
    rows, labels = embeddings_of(runner)
    assert runner.test()['knn/top1'] == pytest.approx(
        knn_accuracy(rows, labels, k=4))


def test_an_empty_bank_is_named(folders, tmp_path):
    with pytest.raises(UserError, match="0 of 18 images are in bank='else"):
        make_runner(folders, tmp_path, bank='elsewhere').test()


def test_a_head_without_embeddings_is_named():
    with pytest.raises(UserError, match='EmbeddingHead'):
        KNNAccuracy().process([], [dict(gt_label=1)])


def test_the_head_needs_pooled_features(folders, tmp_path):
    runner = make_runner(folders, tmp_path)
    runner.model.neck = None
    with pytest.raises(UserError, match='model.neck'):
        runner.test()
    with pytest.raises(UserError, match='nothing to train'):
        runner.model.head.loss(None, None)


def test_links_to_files_count_where_they_are(tmp_path):
    """Splits are often made of links into one pool; a bank may be one."""
    (tmp_path / 'bank').mkdir()
    (tmp_path / 'pool').mkdir()
    (tmp_path / 'bank/0.png').symlink_to(tmp_path / 'pool/0.png')
    (tmp_path / 'link').symlink_to(tmp_path / 'bank')
    for bank in ('bank', 'link'):
        metric = KNNAccuracy(bank=str(tmp_path / bank))
        metric.process([], [
            dict(embedding=torch.zeros(2), gt_label=0,
                 img_path=str(tmp_path / folder / '0.png'))
            for folder in ('bank', 'link', 'pool', 'bank2')])
        assert [row[2] for row in metric.results] == [True, True, False, False]


@pytest.mark.parametrize('options, expected', [
    (dict(k=7, temperature=0.3), (7, 0.3)), ({}, (20, 0.07))])
def test_the_bank_and_options_are_passed_on(monkeypatch, options, expected):
    """The bank classifies the others, and not the other way."""
    seen = []
    monkeypatch.setattr(
        'qbheat_mm.evaluation.knn.knn_accuracy',
        lambda *args, k, temperature: seen.append(
            ([*map(len, args)], k, temperature)) or 0.)
    for bank in ('bank', None):
        KNNAccuracy(bank=bank, **options).compute_metrics(
            [(torch.zeros(2), 0, i < 2) for i in range(5)])
    assert seen == [([2, 2, 3, 3], *expected), ([5, 5], *expected)]
