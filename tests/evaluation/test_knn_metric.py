# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The metric in mmengine's runner, on two folders of images."""
import uuid

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner
from PIL import Image

from qbheat_mm.errors import UserError
from qbheat_mm.evaluation import KNNAccuracy, knn_accuracy
from qbheat_mm.evaluation.knn_metric import _lies_below

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


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    """Six images to learn from and four to classify, of two colors."""
    root = tmp_path_factory.mktemp('knn')
    random = np.random.default_rng(0)
    for split, number in (('train', 3), ('val', 2)):
        for name, level in (('dark', 40), ('light', 200)):
            (root / split / name).mkdir(parents=True)
            for i in range(number):
                pixels = level + random.integers(-30, 30, (20, 20, 3))
                Image.fromarray(pixels.astype(np.uint8)).save(
                    root / split / name / f'{i}.png')
    return root


def run(data, work_dir, **metric):
    parts = [dict(type='NamedImageFolder', data_root=str(data / split),
                  pipeline=PIPELINE) for split in ('train', 'val')]
    runner = Runner.from_cfg(Config(dict(
        default_scope='mmpretrain', model=MODEL, work_dir=str(work_dir),
        experiment_name=uuid.uuid4().hex, randomness=dict(seed=0),
        test_dataloader=dict(
            batch_size=4, num_workers=0,
            sampler=dict(type='DefaultSampler', shuffle=False),
            collate_fn=dict(type='default_collate'),
            dataset=dict(type='ConcatDataset', datasets=parts)),
        test_cfg=dict(), test_evaluator=dict(type='KNNAccuracy', **metric))))
    return runner


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


def test_images_of_the_bank_classify_the_others(data, tmp_path):
    runner = run(data, tmp_path, bank=str(data / 'train'), k=2)
    metrics = runner.test()
    rows, labels = embeddings_of(runner)
    assert len(rows) == 10
    expected = knn_accuracy(rows[:6], labels[:6], rows[6:], labels[6:], k=2)
    assert metrics == {'knn/top1': pytest.approx(expected)}
    assert expected == 100  # dark and light even a random encoder tells


def test_each_image_by_all_the_others(data, tmp_path):
    runner = run(data, tmp_path, k=4)
    rows, labels = embeddings_of(runner)
    assert runner.test()['knn/top1'] == pytest.approx(
        knn_accuracy(rows, labels, k=4))


def test_a_bank_of_nothing_is_named(data, tmp_path):
    with pytest.raises(UserError, match="0 of 10 images lie in bank='else"):
        run(data, tmp_path, bank='elsewhere').test()


def test_a_head_without_embeddings_is_named():
    with pytest.raises(UserError, match='EmbeddingHead'):
        KNNAccuracy().process([], [dict(gt_label=1)])


def test_the_head_wants_pooled_features(data, tmp_path):
    runner = run(data, tmp_path)
    runner.model.neck = None
    with pytest.raises(UserError, match='model.neck'):
        runner.test()
    with pytest.raises(UserError, match='nothing to train'):
        runner.model.head.loss(None, None)


def test_links_count_where_they_lie(data, tmp_path):
    """Splits are often made of links into one pool."""
    pool = tmp_path / 'pool'
    pool.mkdir()
    for split in ('bank', 'val'):
        (tmp_path / split / 'dark').mkdir(parents=True)
        for i in range(2):
            (tmp_path / split / 'dark' / f'{i}.png').symlink_to(
                pool / f'{split}{i}.png')
    (tmp_path / 'val' / 'light').symlink_to(tmp_path / 'bank')
    bank = str(tmp_path / 'bank')
    assert _lies_below(f'{bank}/dark/0.png', bank)
    assert not _lies_below(str(tmp_path / 'val/dark/0.png'), bank)
    assert not _lies_below(f'{bank}2/dark/0.png', bank)
    # the folder itself may have several names
    (tmp_path / 'other').symlink_to(bank)
    assert _lies_below(str(tmp_path / 'other/dark/0.png'), bank)
    assert _lies_below(f'{bank}/dark/0.png', str(tmp_path / 'other'))


def classify(folder, **options):
    """What the metric makes of a bank of two and three others."""
    metric = KNNAccuracy(bank=str(folder), **options)
    rows = [(folder, 0, [1., 0.]), (folder, 1, [0., 1.]),
            # of three images of one class two lie near the other
            ('val', 0, [1., .1]), ('val', 0, [.1, 1.]), ('val', 0, [.2, 1.])]
    metric.process([], [
        dict(embedding=torch.tensor(x), gt_label=torch.tensor([label]),
             img_path=f'{place}/x.png') for place, label, x in rows])
    return metric.compute_metrics(metric.results)['top1']


def test_the_bank_classifies_the_others_and_not_the_other_way(tmp_path):
    assert round(classify(tmp_path, k=1), 2) == 33.33


def test_temperature_and_k_are_passed_on(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr('qbheat_mm.evaluation.knn_metric.knn_accuracy',
                        lambda *args, **kwargs: seen.append(
                            (*args[4:], *kwargs.values())) or 0.)
    classify(tmp_path, k=7, temperature=0.3)
    metric = KNNAccuracy(k=7, temperature=0.3)
    metric.results = [(torch.zeros(2), 0, True)]
    metric.compute_metrics(metric.results)
    assert seen == [(7, 0.3)] * 2
