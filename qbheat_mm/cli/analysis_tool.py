# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What the tools that look into a trained model share."""
import json
import logging
import os
import os.path as osp
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

import numpy as np
import torch
from mmengine.config import Config
from mmengine.logging import print_log

from ..analysis.figures.style import in_style
from ..analysis.report import Report
from ..datasets.image_lists import find_images, load_images, spread
from ..errors import UserError
from ..utils.settings import training_size
from .command_line import add_cfg_options, add_device, folder
from .settings import read_config

#: Dots per inch of the pictures, enough for print.
DPI = 200
# Arguments of numpy's function that writes arrays by their names.
_NOT_NAMES = ('file', 'allow_pickle')


def analysis_parser(description: str,
                    images: bool = True,
                    many: bool = False) -> ArgumentParser:
    """The arguments of every analysis.

    Args:
        description (str): Of the tool.
        images (bool): Whether it needs images. Defaults to True.
        many (bool): Whether it takes several checkpoints (which are then
            the last arguments, so without images). Defaults to False.
    """
    parser = ArgumentParser(description=description)
    parser.add_argument('config', help='configuration file')
    parser.add_argument(
        'checkpoint',
        nargs='+' if many else None,
        help='checkpoint file or URL')
    if images:
        parser.add_argument(
            'images', nargs='+', help='image files or folders of images')
        parser.add_argument(
            '--max-images', type=int, metavar='N',
            help='take N images, spread evenly over all that are given')
        parser.add_argument(
            '--size', type=int, nargs='+', metavar='PIXELS',
            help='scale and crop images to this side, or height and width; '
            'by default the size of the training pipeline; 0 keeps the size '
            'of each image, cropped to what the model accepts')
    parser.add_argument(
        '--out', required=True, type=folder, help='folder for results')
    add_device(parser)
    add_cfg_options(parser)
    return parser


def read_settings(args: Namespace) -> Config:
    """The configuration of a tool's arguments."""
    return read_config(args.config, args.cfg_options)


def read_images(args: Namespace, cfg: Config,
                unit: int) -> tuple[list[str], list[np.ndarray]]:
    """The images of a tool's arguments, see :func:`load_images`.

    Raises:
        UserError: If there is no image, or ``--size`` does not fit.
    """
    files = find_images(args.images)
    if args.max_images is not None:
        if args.max_images < 1:
            raise UserError(f'--max-images {args.max_images} leaves no image')
        files = spread(files, args.max_images)
    return load_images(files, _size(args.size, cfg, unit), unit)


def _size(given: list[int] | None, cfg: Config,
          unit: int) -> tuple[int, int] | None:
    if given == [0]:
        return None
    if given is None:
        return _fitting(training_size(cfg), unit)
    if len(given) > 2 or any(side <= 0 or side % unit for side in given):
        raise UserError(
            f'--size {" ".join(map(str, given))}: give one side, or height '
            f'and width, in multiples of {unit}, or 0 for the own size of '
            'each image')
    return given[0], given[-1]


def _fitting(size: tuple[int, int] | None,
             unit: int) -> tuple[int, int] | None:
    """The multiples of ``unit`` nearest to the size of training."""
    if size is None:
        return None
    height, width = (max(round(side / unit), 1) * unit for side in size)
    if (height, width) != tuple(size):
        print_log(
            f'images are looked at in {height}x{width}, since training has '
            f'{size[0]}x{size[1]} and this needs multiples of {unit}; --size '
            'sets another', logger='current', level=logging.WARNING)
    return height, width


def as_batch(images: list[np.ndarray]) -> torch.Tensor:
    """BGR images of one size, (H, W, 3) each, as (B, 3, H, W), uint8.

    Raises:
        UserError: If their sizes differ.
    """
    sizes = {image.shape[:2] for image in images}
    if len(sizes) > 1:
        raise UserError(f'the images have {len(sizes)} different sizes, and '
                        'this analysis needs one: give --size PIXELS')
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)


def write(out: str,
          report: Report,
          figures: Mapping,
          arrays: Mapping[str, np.ndarray] | None = None) -> None:
    """Write a report, its pictures and its arrays.

    Args:
        out (str): Folder, made if it is not there.
        report (Report): Gets the names of the pictures and the command.
        figures (Mapping): Name to a figure of matplotlib.
        arrays (Mapping, optional): Name to array, for one NPZ file.
    """
    os.makedirs(out, exist_ok=True)
    for name, figure in figures.items():
        report.pictures.append(f'{name}.png')
        with in_style():
            figure.savefig(osp.join(out, f'{name}.png'), dpi=DPI)
    report.source.setdefault('command', shlex.join(
        ['python', *sys.argv]))
    files = [*report.pictures]
    if arrays:
        report.source['arrays'] = f'{report.analysis}.npz'
        np.savez_compressed(osp.join(out, f'{report.analysis}.npz'), **arrays)
        files.append(f'{report.analysis}.npz')
    with open(osp.join(out, f'{report.analysis}.json'), 'w') as file:
        json.dump(report.as_json(), file, indent=1)
        file.write('\n')
    files.append(f'{report.analysis}.json')
    print(f'{report.title}: {", ".join(files)} in {out}')


def print_tables(report: Report) -> None:
    """Show the numbers of a report in the terminal."""
    for table in report.tables:
        rows = [table.columns] + [[
            f'{cell:.4g}' if isinstance(cell, float) else str(cell)
            for cell in row
        ] for row in table.rows]
        widths = [max(map(len, column)) for column in zip(*rows)]
        print(f'\n{table.title}')
        for row in rows:
            print('  '.join(
                cell.ljust(width)
                for cell, width in zip(row, widths)).rstrip())


def add_further_models(parser: ArgumentParser) -> None:
    """Let a tool compare several encoders on the same images."""
    parser.add_argument(
        '--also', nargs=2, action='append', default=[],
        metavar=('CONFIG', 'CHECKPOINT'),
        help='another encoder to compare with; may be repeated')
    parser.add_argument(
        '--names', nargs='+', default=[], metavar='NAME',
        help='what to call the encoders in the figure; by default the names '
        'of their configurations')


def further_models(args: Namespace) -> list[tuple[str, str, str]]:
    """Name, configuration and checkpoint of each encoder.

    Raises:
        UserError: If there are not as many names as encoders, two equal, or
            one under which no array can be kept.
    """
    pairs = [(args.config, args.checkpoint), *args.also]
    names = args.names or [
        osp.splitext(osp.basename(config))[0] for config, _ in pairs]
    if len(set(names)) != len(pairs):
        raise UserError(
            f'{len(pairs)} encoders need {len(pairs)} different names, there '
            f'are {", ".join(names)}: give --names')
    for name in names:
        if not name.strip() or '/' in name or name in _NOT_NAMES:
            raise UserError(f'--names {name!r}: that is no name for an '
                            'encoder and its arrays: give another')
    return [(name, *pair) for name, pair in zip(names, pairs)]
