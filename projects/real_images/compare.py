# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Compare encoders on your labeled images, and say which to use.

FOLDER has a folder per class below train and val, as prepare_classes.py writes
it. Every encoder stays frozen; classifiers learn from 30, 120, ... and all
labels. Thumbnails, HOG and random weights take part. Writes OUT/index.html.
"""
import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import mean

import numpy as np
import torch
from matplotlib.figure import Figure
from mmengine.config import Config
from mmpretrain.registry import DATASETS
from sklearn.preprocessing import normalize

from projects.real_images.classify import (
    Parts,
    encoded,
    pooled,
    probe,
    ridge,
    ridge_and_svm,
    select,
)
from projects.real_images.labels import few
from projects.study.classify import (
    BASELINES,
    MAX_IMAGES,
    describe_images,
    image_loaders,
)
from qbheat_mm.apis import Encoder, load_encoder
from qbheat_mm.cli import read_config, report_user_errors
from qbheat_mm.datasets.images import fit, read_image, spread
from qbheat_mm.errors import UserError
from qbheat_mm.report import Report, Table, find_reports, tell
from qbheat_mm.report.style import in_style, new_figure, show_picture
from qbheat_mm.trained.encoder_config import EncoderConfig

CONFIG = Path(__file__).with_name('configs') / 'classes.py'
#: Numbers of labels, besides all, and choices of each.
COUNTS, CHOICES = (30, 120, 480), 3
#: A difference that is worth a choice: points, and images.
POINTS, IMAGES = 2, 2
#: Images and their neighbors to show, and their size in pixels.
SHOWN, NEIGHBORS, SIZE = 6, 5, 160
CAPTION = ('Classifiers on frozen features, by number of labels (means of '
           f'{CHOICES} choices), and images (left) with those that are '
           'nearest to them among the training images. Encoders have ridge '
           'regression, thumbnails and HOG that or an RBF-kernel SVM.')


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


def load_encoders(arguments: Sequence[str]) -> dict[str, Encoder]:
    """Load encoders, by name.

    Raises:
        UserError: If two have the same name, or one is no name of a file.
    """
    found, taken = {}, {'thumbnails', 'HOG', 'random weights'}
    for argument in arguments:
        name, _, file = argument.partition('=')
        if not file or Path(argument).is_file():
            name, file = Path(argument).stem, argument
        if name in taken or '/' in name:
            raise UserError(f'--encoders: the name {name!r} is taken or has '
                            f'a slash: write OTHER={file}')
        taken.add(name)
        found[name] = load_encoder(file)
    return found


def random_encoder(cfg: Config, loader: dict) -> Encoder:
    """An encoder with torch's initialization and the images' BN statistics."""
    torch.manual_seed(0)
    described = EncoderConfig(cfg.to_dict(), cfg.filename)
    encoder = Encoder(described.build(), described.normalization)
    for module in encoder.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None  # the mean of all batches
    encoder.train()
    describe_images(encoded(encoder), dict(
        loader, sampler=dict(type='DefaultSampler', shuffle=True)))
    return encoder.eval()


def list_files(loader: dict) -> list[str]:
    """Files of a loader's images, in order; at most ``MAX_IMAGES``."""
    data = DATASETS.build(loader['dataset'])
    if len(data) > MAX_IMAGES:
        rows = few(np.array(data.get_gt_labels()), MAX_IMAGES, seed=0)
        loader['dataset']['indices'] = rows.tolist()
        data = DATASETS.build(loader['dataset'])
    return [data.get_data_info(i)['img_path'] for i in range(len(data))]


def ridge_or_svm(*data) -> float:
    """Top-1 of the better in cross-validation."""
    return ridge_and_svm(*data)['top-1']


def accuracies(judge: Callable[..., float], known: Parts, labels: np.ndarray,
               new: Parts, new_labels: np.ndarray) -> dict[int, list[float]]:
    """Top-1 by number of labels, at least one a class."""
    choices = {count: [few(labels, count, seed) for seed in range(CHOICES)]
               for count in COUNTS
               if len(np.unique(labels)) <= count < len(labels)}
    choices[len(labels)] = [np.arange(len(labels))]
    return {count: [judge(select(known, rows), labels[rows], new, new_labels)
                    for rows in chosen]
            for count, chosen in choices.items()}


def advise(found: Mapping[str, Mapping[int, list[float]]], count: int,
           images: int) -> str:
    """Say which to use; ``found`` is sorted from cheap to dear."""
    scores = {name: mean(by_count[count]) for name, by_count in found.items()}
    best = max(scores, key=scores.get)
    matters = max(POINTS, 100 * IMAGES / images)
    enough = next(name for name in scores
                  if scores[name] > scores[best] - matters)
    more = '' if enough == best else (
        f'; {best} has {scores[best]:.1f} %, not {matters:.0f} points more')
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
            show_picture(axis, fit(read_image(file), (SIZE, SIZE))[..., ::-1])
    return figure


def main() -> None:
    """Compare, and write the page."""
    args = parse_args()
    cfg = read_config(CONFIG, {
        'train_dataloader.dataset.data_root': args.folder,
        'val_dataloader.dataset.data_root': args.folder,
        'val_dataloader.dataset.data_prefix': 'val'})
    encoders = load_encoders(args.encoders)
    loaders = image_loaders(cfg)
    files, new_files = (list_files(loader) for loader in loaders)
    arms = dict(thumbnails=BASELINES['thumbnails'], HOG=BASELINES['hog'])
    for name, encoder in {'random weights': random_encoder(cfg, loaders[0]),
                          **encoders}.items():
        arms[name] = encoded(encoder)
    found, rows, figures = {}, [], {}
    for name, features in arms.items():
        print(f'{name} ...', flush=True)
        (known, labels), (new, new_labels) = (
            describe_images(features, loader) for loader in loaders)
        tran, judge = '-', ridge_or_svm
        if name not in ('thumbnails', 'HOG'):
            judge = ridge
            tran = probe('tran-1', known, labels, new, new_labels, cfg.steps,
                         cfg.rates['tran-1'])
            tran = f'{tran:.1f}'
            known, new = pooled(known), pooled(new)
        found[name] = accuracies(judge, known, labels, new, new_labels)
        rows.append([name, *(f'{mean(scores):.1f}'
                             for scores in found[name].values()), tran])
        vectors = [next(iter(each.values())) for each in (known, new)]
        with in_style():
            figures[f'nearest, {name}'] = draw_neighbors(
                *vectors, files, new_files)
    with in_style():
        figures = {'labels': draw_curves(found), **figures}
    counts = [*next(iter(found.values()))]
    advice = ' '.join(advise(found, count, len(new_files))
                      for count in counts)
    report = Report(
        'comparison', 'Which encoder?', f'{CAPTION} {advice}',
        [Table(f'Top-1 in percent of {len(new_files)} images',
               ['frozen encoder', *(f'{count} labels' for count in counts),
                f'tran-1, {counts[-1]} labels'], rows)],
        dict(accuracies=found))
    report.save(str(args.out), figures)
    (args.out / 'index.html').write_text(tell(
        'Which encoder?', advice, find_reports(str(args.out))), 'utf-8')
    print(f'\n{advice}\n{args.out / "index.html"}')


if __name__ == '__main__':
    report_user_errors(main)
