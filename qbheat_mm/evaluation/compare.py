# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Compare frozen encoders on labeled images, and say which to use."""
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from mmengine.utils import ProgressBar
from mmpretrain.registry import DATASETS

from ..annotations import prepare_classes
from ..annotations.formats import holds_boxes
from ..datasets import read_image
from ..errors import UserError
from ..trained.encoder import Encoder
from .candidates import SIZE, Candidate, list_candidates
from .comparison import BoxComparison, Comparison
from .comparison_page import (
    Shown,
    draw_curves,
    draw_neighbors,
    report_classes,
    write_page,
)
from .features import (
    Features,
    choose_few,
    extract_features,
    pool_maps,
    require_equal_classes,
    select,
)
from .kernels import MAX_IMAGES, ridge, ridge_or_svm
from .probes import BATCH, probe

#: Numbers of labels, besides all, and choices of each.
COUNTS, CHOICES = (30, 120, 480), 3
#: Epochs, least and most steps, and learning rate of `tran-1`.
EPOCHS, STEPS, RATE = 40, (200, 800), 1e-3


def compare(folder: str | Path, encoders: Mapping[str, str | Path | Encoder],
            out: str | Path, device: str = 'cpu'
            ) -> Comparison | BoxComparison:
    """Compare frozen encoders on labeled images, and write a page.

    On classes, classifiers learn from 30, 120, 480 and all labels.
    Thumbnails, HOG (needs scikit-image) and random weights are the
    baselines. On boxes, which need mmdet, detectors learn for some steps
    from all training images and a tenth of them; the baseline is random
    weights.

    Args:
        folder (str | Path): What :func:`prepare_classes` or
            :func:`prepare_boxes` writes or reads: ``train/CLASS`` and
            ``val/CLASS``, folders of classes without ``val``, ``boxes.py``
            with its annotations, or an annotation tool's export of boxes.
        encoders (Mapping): By name, an encoder or what :func:`open_encoder`
            opens.
        out (str | Path): Folder of the page, ``index.html``, and the table,
            ``accuracies.csv`` or ``precisions.csv``.
        device (str): Device of encoders and ``tran-1``. Defaults to 'cpu'.
            Detectors take a GPU if there is one.

    Returns:
        Comparison | BoxComparison: Scores, and which encoder to use.

    Raises:
        UserError: If a name is reserved, an encoder does not take images of
            160 x 160 pixels or lacks the maps that a detector needs, classes
            of ``train`` and ``val`` differ, or a package is not installed.

    Examples:
        >>> found = compare('data/classes', dict(
        ...     ours='encoder.safetensors', lite='timm/efficientnet_lite0'),
        ...     'looks/compare')
        >>> print(found.advice)
    """
    folder, out = Path(folder), Path(out)
    has_boxes = (folder / 'boxes.py').is_file()
    if not has_boxes and not (folder / 'classes.py').is_file():
        has_boxes = holds_boxes(str(folder))
    if not has_boxes:
        return compare_classes(folder, encoders, out, device)
    try:
        from .compare_boxes import compare_boxes
    except ImportError as error:
        raise UserError(
            f"'{folder}' has boxes, which need mmdet ({error}): pip install "
            "'.[openmmlab]' && python -m qbheat_mm.build_mmcv") from error
    return compare_boxes(folder, encoders, out, device)


def compare_classes(folder: Path,
                    encoders: Mapping[str, str | Path | Encoder], out: Path,
                    device: str) -> Comparison:
    """Compare frozen encoders on class folders; see :func:`compare`."""
    if find_spec('skimage') is None:
        raise UserError('the HOG baseline needs scikit-image: '
                        'pip install scikit-image')
    if not all((folder / split).is_dir() for split in ('train', 'val')):
        folder = Path(prepare_classes(
            str(folder), str(out / 'classes')).config).parent
    loaders = make_loader(folder, 'train'), make_loader(folder, 'val')
    require_equal_classes(loaders[0]['dataset'], loaders[1]['dataset'])
    files = list_files(loaders[0]), list_files(loaders[1])
    comparison, figures, start = Comparison(len(files[1])), {}, time.time()
    candidates = list_candidates(encoders, loaders[0], device)
    try:
        for done, candidate in enumerate(candidates):
            print(f'{candidate.name} ({done + 1} of {len(candidates)}'
                  f'{_time_left(start, done, len(candidates))})', flush=True)
            title = f'nearest, {candidate.name}'
            figures[title] = score_candidate(
                candidate, comparison, loaders, files, device)
    finally:  # what was found outlives a candidate that fails
        if comparison.accuracies:
            curves = draw_curves(comparison.accuracies, 'labels', 'top-1, %')
            write_page(out, comparison.advice, report_classes(comparison),
                       dict(labels=curves, **figures))
            comparison.write_csv(out / 'accuracies.csv')
    return comparison


def score_candidate(candidate: Candidate, comparison: Comparison,
                    loaders: Sequence[dict], files: Sequence[Sequence[str]],
                    device: str) -> Figure:
    """Add a candidate's accuracies; return a figure of nearest images.

    Args:
        candidate (Candidate): What to score.
        comparison (Comparison): Changed in place.
        loaders (Sequence[dict]): Settings of loaders of train and test images.
        files (Sequence[Sequence[str]]): Files of both.
        device (str): Device of ``tran-1``.
    """
    bar = ProgressBar(len(files[0]) + len(files[1]), file=sys.stdout)
    train, labels = extract_features(
        candidate.extract, loaders[0], bar.update)
    test, test_labels = extract_features(
        candidate.extract, loaders[1], bar.update)
    print('\ntraining classifiers', flush=True)
    classifier = ridge_or_svm
    if candidate.has_maps:
        top1 = probe('tran-1', train, labels, test, test_labels,
                     count_steps(len(labels)), RATE, device)
        comparison.probes[candidate.name] = top1
        classifier, train, test = ridge, pool_maps(train), pool_maps(test)
    comparison.accuracies[candidate.name] = measure(
        classifier, train, labels, test, test_labels)
    name = next(iter(train))

    def shown(features: Features, labels: np.ndarray, split: int) -> Shown:
        return Shown(features[name], labels,
                     lambda i: read_image(files[split][i]))

    return draw_neighbors(
        f'nearest, {candidate.name}', shown(train, labels, 0),
        shown(test, test_labels, 1))


def count_steps(images: int) -> int:
    """Steps of ``tran-1``, which take most of the time, for some images."""
    least, most = STEPS
    return min(max(EPOCHS * math.ceil(images / BATCH), least), most)


def _time_left(start: float, done: int, candidates: int) -> str:
    """Say how long the rest takes, if it takes as long as what is done."""
    if not done:
        return ''
    seconds = (time.time() - start) / done * (candidates - done)
    return f', about {timedelta(seconds=round(seconds))} left'


def make_loader(folder: str | Path, split: str) -> dict:
    """Settings of a loader of whole images."""
    return dict(
        batch_size=64, num_workers=0,
        sampler=dict(type='DefaultSampler', shuffle=False),
        collate_fn=dict(type='default_collate'),
        dataset=dict(
            type='NamedImageFolder', data_root=str(folder), data_prefix=split,
            pipeline=[
                dict(type='LoadImageFromFile', _scope_='qbheat_mm'),
                dict(type='ResizeEdge', scale=SIZE, edge='short',
                     backend='pillow', interpolation='bicubic'),
                dict(type='CenterCrop', crop_size=SIZE),
                dict(type='PackInputs')]))


def list_files(loader: dict) -> list[str]:
    """Files of a loader's images, in order; at most ``MAX_IMAGES``."""
    data = DATASETS.build(loader['dataset'])
    if len(data) > MAX_IMAGES:
        print(f'{data.img_prefix}: {MAX_IMAGES} of {len(data)} images, '
              'balanced over classes')
        rows = choose_few(np.array(data.get_gt_labels()), MAX_IMAGES, seed=0)
        loader['dataset']['indices'] = rows.tolist()
        data = DATASETS.build(loader['dataset'])
    return [data.get_data_info(i)['img_path'] for i in range(len(data))]


def measure(classifier: Callable[..., float], train: Features,
            labels: np.ndarray, test: Features,
            test_labels: np.ndarray) -> dict[int, list[float]]:
    """Top-1 by number of labels, at least one a class, and by choice."""
    accuracies = {}
    for count in COUNTS:
        if len(np.unique(labels)) <= count < len(labels):
            accuracies[count] = []
            for seed in range(CHOICES):
                rows = choose_few(labels, count, seed)
                accuracies[count].append(classifier(
                    select(train, rows), labels[rows], test, test_labels))
    accuracies[len(labels)] = [classifier(train, labels, test, test_labels)]
    return accuracies
