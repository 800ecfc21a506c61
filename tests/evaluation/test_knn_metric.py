# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The metric in mmengine's runner, on two folders of images."""
import uuid

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

from qbheat_mm.errors import UserError
from qbheat_mm.evaluation import KNNAccuracy, knn_accuracy

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
