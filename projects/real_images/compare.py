# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Compare encoders on your labeled images, and say which to use.

FOLDER has a folder per class below train and val, as prepare_classes.py writes
it. Every encoder stays frozen; classifiers learn from 30, 120, ... and all
labels. Thumbnails, HOG and random weights take part. Writes OUT/index.html.
"""
import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

import numpy as np
import torch
from matplotlib.figure import Figure
from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmpretrain.registry import DATASETS
from sklearn.preprocessing import normalize

from projects.drawn_world.study.classify import BASELINES, describe_images
from projects.real_images.classify import (
    Parts,
    encoded,
    pooled,
    probe,
    ridge,
    select,
)
from projects.real_images.labels import few
from qbheat_mm.analysis.report import Report, Table
from qbheat_mm.analysis.story import find_reports, tell
from qbheat_mm.analysis.style import in_style, new_figure, show_picture
from qbheat_mm.apis import Encoder, load_encoder
from qbheat_mm.cli import read_config, report_user_errors
from qbheat_mm.datasets.images import read_image, spread
from qbheat_mm.trained.encoder_config import EncoderConfig

CONFIG = Path(__file__).with_name('configs') / 'classes.py'
#: Numbers of labels, besides all, and choices of each.
COUNTS, CHOICES = (30, 120, 480), 3
#: A difference in points that is worth a choice, as in PLAN.md.
MATTERS = 2.
#: Images and their neighbors to show.
SHOWN, NEIGHBORS = 6, 5
CAPTION = ('Classifiers on frozen features, by number of labels (means of '
           f'{CHOICES} choices), and images (left) with those that are '
           'nearest to them among the training images.')


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', help='folder of train/CLASS and val/CLASS')
    parser.add_argument('--out', type=Path, required=True, metavar='FOLDER')
    parser.add_argument(
        '--encoders', nargs='+', default=[], metavar='NAME=FILE',
        help='encoders, such as ours=runs/mine/encoder.safetensors, or those '
        'of tools/published.py')
    return parser.parse_args()


def random_encoder(cfg: Config, loader: dict) -> Encoder:
    """An encoder with torch's initialization and the images' BN statistics."""
    torch.manual_seed(0)
    described = EncoderConfig(cfg.to_dict(), cfg.filename)
    encoder = Encoder(described.build(), described.normalization)
    encoder.train()
    describe_images(encoded(encoder), loader)
    return encoder.eval()


def list_files(loader: dict) -> list[str]:
    """Files of a loader's images, in order."""
    data = DATASETS.build(loader['dataset'])
    return [data.get_data_info(i)['img_path'] for i in range(len(data))]


def accuracies(known: Parts, labels: np.ndarray, new: Parts,
               new_labels: np.ndarray) -> dict[int, list[float]]:
    """Top-1 of ridge regression by number of labels, at least one a class."""
    found = {}
    for count in COUNTS:
        if len(np.unique(labels)) <= count < len(labels):
            chosen = [few(labels, count, seed) for seed in range(CHOICES)]
            found[count] = [ridge(select(known, rows), labels[rows], new,
                                  new_labels) for rows in chosen]
    found[len(labels)] = [ridge(known, labels, new, new_labels)]
    return found


def advise(found: Mapping[str, Mapping[int, list[float]]], count: int) -> str:
    """Say which to use; ``found`` is sorted from cheap to dear."""
    scores = {name: mean(by_count[count]) for name, by_count in found.items()}
    best = max(scores, key=scores.get)
    enough = next(name for name in scores
                  if scores[name] > scores[best] - MATTERS)
    more = '' if enough == best else (
        f'; {best} has {scores[best]:.1f} %, not {MATTERS:g} points more')
    return (f'With {count} labels, use {enough} ({scores[enough]:.1f} % '
            f'right{more}).')


def draw_curves(found: Mapping[str, Mapping[int, list[float]]]) -> Figure:
    """Top-1 by number of labels."""
    figure = new_figure(6, 3.5)
    axis = figure.subplots()
    for name, by_count in found.items():
        axis.plot([*by_count], [*map(mean, by_count.values())], marker='o',
                  label=name)
    axis.set(xscale='log', xlabel='labels', ylabel='top-1, %')
    axis.legend()
    return figure


def draw_neighbors(known: np.ndarray, new: np.ndarray,
                   files: Sequence[str], new_files: Sequence[str]) -> Figure:
    """Some images, and the training images that are nearest by cosine."""
    figure = new_figure(1.2 * (NEIGHBORS + 1), 1.2 * SHOWN)
    for row, line in zip(spread(range(len(new)), SHOWN),
                         figure.subplots(SHOWN, NEIGHBORS + 1)):
        likeness = normalize(known) @ normalize(new[row:row + 1]).T[:, 0]
        nearest = [files[i] for i in np.argsort(-likeness)[:NEIGHBORS]]
        for axis, file in zip(line, [new_files[row], *nearest]):
            show_picture(axis, read_image(file)[..., ::-1])
    return figure


def main() -> None:
    """Compare, and write the page."""
    args = parse_args()
    cfg = read_config(CONFIG, {
        'train_dataloader.dataset.data_root': args.folder,
        'val_dataloader.dataset.data_root': args.folder,
        'val_dataloader.dataset.data_prefix': 'val'})
    init_default_scope('mmpretrain')
    tested = cfg.val_dataloader
    loaders = [dict(tested, dataset=dict(
        cfg.train_dataloader.dataset, pipeline=tested.dataset.pipeline)),
        tested]
    arms = dict(thumbnails=BASELINES['thumbnails'], HOG=BASELINES['hog'])
    arms['random weights'] = encoded(random_encoder(cfg, loaders[0]))
    for pair in args.encoders:
        name, _, file = pair.rpartition('=')
        arms[name or Path(file).stem] = encoded(load_encoder(file))
    files, new_files = (list_files(loader) for loader in loaders)
    found, rows, figures = {}, [], {}
    for name, features in arms.items():
        print(f'{name} ...', flush=True)
        (known, labels), (new, new_labels) = (
            describe_images(features, loader) for loader in loaders)
        tran = '-'
        if name not in ('thumbnails', 'HOG'):
            tran = probe('tran-1', known, labels, new, new_labels, cfg.steps,
                         cfg.rates['tran-1'])
            tran = f'{tran:.1f}'
            known, new = pooled(known), pooled(new)
        found[name] = accuracies(known, labels, new, new_labels)
        rows.append([name, *(f'{mean(scores):.1f}'
                             for scores in found[name].values()), tran])
        vectors = [next(iter(each.values())) for each in (known, new)]
        with in_style():
            figures[f'nearest, {name}'] = draw_neighbors(
                *vectors, files, new_files)
    with in_style():
        figures = {'labels': draw_curves(found), **figures}
    counts = [*next(iter(found.values()))]
    advice = ' '.join(advise(found, count) for count in counts)
    report = Report(
        'comparison', 'Which encoder?', f'{CAPTION} {advice}',
        [Table(f'Top-1 in percent of {len(new_files)} images',
               ['frozen encoder', *(f'ridge, {count} labels'
                                    for count in counts),
                f'tran-1, {counts[-1]} labels'], rows)],
        dict(ridge=found))
    report.save(str(args.out), figures)
    (args.out / 'index.html').write_text(tell(
        'Which encoder?', advice, find_reports(str(args.out))), 'utf-8')
    print(f'\n{advice}\n{args.out / "index.html"}')


if __name__ == '__main__':
    report_user_errors(main)
