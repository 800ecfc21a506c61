# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Compare frozen encoders on labeled images, and say which to use."""
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from mmengine.utils import ProgressBar
from mmpretrain.registry import DATASETS

from ..annotations import prepare_classes
from ..errors import UserError
from ..trained.encoder import Encoder
from .comparison import Comparison
from .comparison_page import draw_curves, draw_neighbors, write_page
from .contenders import list_contenders
from .features import (
    Parts,
    choose_few,
    describe_images,
    pool_maps,
    require_equal_classes,
    select,
)
from .kernels import MAX_IMAGES, ridge, ridge_or_svm
from .probes import probe

#: Numbers of labels, besides all, and choices of each.
COUNTS, CHOICES = (30, 120, 480), 3
#: Steps and learning rate of `tran-1`.
STEPS, RATE = 800, 1e-3
#: Shorter side that images are scaled to, and side of their center crop.
SIZE = 160


def compare(folder: str | Path, encoders: Mapping[str, str | Path | Encoder],
            out: str | Path, device: str = 'cpu') -> Comparison:
    """Compare frozen encoders on labeled images, and write a page.

    Classifiers learn from 30, 120, 480 and all labels. Thumbnails, HOG
    (histograms of gradients; needs scikit-image) and random weights take
    part.

    Args:
        folder (str | Path): ``train/CLASS`` and ``val/CLASS``, as
            :func:`prepare_classes` writes them, or anything that it reads,
            such as folders of classes.
        encoders (Mapping): By name, an encoder or what :func:`open_encoder`
            opens.
        out (str | Path): Folder of the page, ``index.html``, and the table,
            ``accuracies.csv``.
        device (str): Device of encoders and ``tran-1``. Defaults to 'cpu'.

    Returns:
        Comparison: Accuracies, and which encoder to use.

    Raises:
        UserError: If a name is taken, or classes of ``train`` and ``val``
            differ, or scikit-image is not installed.

    Examples:
        >>> found = compare('data/classes', dict(
        ...     ours='encoder.safetensors', lite='timm/efficientnet_lite0'),
        ...     'looks/compare')
        >>> print(found.advice)
    """
    out = Path(out)
    if find_spec('skimage') is None:
        raise UserError('HOG takes part, which needs scikit-image: '
                        'pip install scikit-image')
    if not Path(folder, 'train').is_dir():
        folder = Path(prepare_classes(
            str(folder), str(out / 'classes')).config).parent
    loaders = make_loader(folder, 'train'), make_loader(folder, 'val')
    require_equal_classes(loaders[0]['dataset'], loaders[1]['dataset'])
    files = list_files(loaders[0]), list_files(loaders[1])
    number = len(files[0]) + len(files[1])
    comparison, figures, start = Comparison(len(files[1])), {}, time.time()
    contenders = list_contenders(encoders, loaders[0], device)
    for done, contender in enumerate(contenders):
        print(f'{contender.name} ({done + 1} of {len(contenders)}'
              f'{_time_left(start, done, len(contenders))})', flush=True)
        bar = ProgressBar(number, file=sys.stdout)
        known, labels = describe_images(
            contender.features, loaders[0], bar.update)
        new, new_labels = describe_images(
            contender.features, loaders[1], bar.update)
        print()
        judge = ridge_or_svm
        if contender.has_maps:
            comparison.probes[contender.name] = probe(
                'tran-1', known, labels, new, new_labels, STEPS, RATE,
                device)
            judge, known, new = ridge, pool_maps(known), pool_maps(new)
        comparison.accuracies[contender.name] = measure(
            judge, known, labels, new, new_labels)
        vectors = next(iter(known))
        title = f'nearest, {contender.name}'
        figures[title] = draw_neighbors(
            title, known[vectors], new[vectors], *files)
    write_page(out, comparison, {
        'labels': draw_curves(comparison.accuracies), **figures})
    comparison.write_csv(out / 'accuracies.csv')
    return comparison


def _time_left(start: float, done: int, all_contenders: int) -> str:
    """Say how long the rest takes, if it takes as long as what is done."""
    if not done:
        return ''
    seconds = (time.time() - start) / done * (all_contenders - done)
    return f', about {seconds / 60:.0f} minutes left'


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
        rows = choose_few(np.array(data.get_gt_labels()), MAX_IMAGES, seed=0)
        loader['dataset']['indices'] = rows.tolist()
        data = DATASETS.build(loader['dataset'])
    return [data.get_data_info(i)['img_path'] for i in range(len(data))]


def measure(judge: Callable[..., float], known: Parts, labels: np.ndarray,
            new: Parts, new_labels: np.ndarray) -> dict[int, list[float]]:
    """Top-1 by number of labels, at least one a class, and by choice."""
    accuracies = {}
    for count in COUNTS:
        if len(np.unique(labels)) <= count < len(labels):
            accuracies[count] = []
            for seed in range(CHOICES):
                rows = choose_few(labels, count, seed)
                accuracies[count].append(judge(
                    select(known, rows), labels[rows], new, new_labels))
    accuracies[len(labels)] = [judge(known, labels, new, new_labels)]
    return accuracies
