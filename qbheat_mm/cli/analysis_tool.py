# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What the tools that look into a trained model share."""
import logging
import os.path as osp
from argparse import ArgumentParser, Namespace

import numpy as np
import torch
from mmengine.config import Config
from mmengine.logging import print_log

from ..apis import load_encoder
from ..datasets import find_images, load_images, spread
from ..errors import UserError
from ..evaluation.encoder import Encoder
from ..utils.settings import training_size
from .command_line import add_cfg_options, add_device, count, folder
from .settings import read_config


def analysis_parser(description: str,
                    images: bool = True,
                    further_models: bool = False) -> ArgumentParser:
    """Create the parser of an analysis.

    Args:
        description (str): Of the tool.
        images (bool): Whether it takes images, and otherwise several
            checkpoints. Defaults to True.
        further_models (bool): Whether it compares encoders on the same
            images. Defaults to False.
    """
    parser = ArgumentParser(description=description)
    parser.add_argument('config', help='config file')
    parser.add_argument('checkpoint', nargs=None if images else '+',
                        help='checkpoint file or URL')
    if images:
        parser.add_argument(
            'images', nargs='+', help='image files or folders of images')
        parser.add_argument(
            '--max-images', type=count, metavar='N',
            help='take N images, spread evenly over all that are given')
        parser.add_argument(
            '--size', type=int, nargs='+', metavar='PIXELS',
            help='scale and crop images to this side, or height and width; '
            'by default the size of the training pipeline; 0 keeps the size '
            'of each image, rounded to what the model accepts')
    parser.add_argument(
        '--out', required=True, type=folder, help='folder for results')
    if further_models:
        add_further_models(parser)
    add_device(parser)
    add_cfg_options(parser)
    return parser


def add_further_models(parser: ArgumentParser) -> None:
    """Add ``--also`` and ``--names``."""
    parser.add_argument(
        '--also', nargs=2, action='append', default=[],
        metavar=('CONFIG', 'CHECKPOINT'),
        help='another encoder to compare with; may be repeated')
    parser.add_argument(
        '--names', nargs='+', default=[], metavar='NAME',
        help='names of the encoders in the figure; by default those of '
        'their configs')


def read_images(args: Namespace, cfg: Config,
                unit: int) -> tuple[list[str], list[np.ndarray]]:
    """Read the images of a tool's arguments, see :func:`load_images`.

    Raises:
        UserError: If there is no image, or ``--size`` does not fit.
    """
    files = find_images(args.images)
    if args.max_images is not None:
        files = spread(files, args.max_images)
    return load_images(files, _image_size(args.size, cfg, unit), unit)


def _image_size(given: list[int] | None, cfg: Config,
                unit: int) -> tuple[int, int] | None:
    if given == [0]:
        return None
    if given is not None:
        if len(given) > 2 or any(side <= 0 or side % unit for side in given):
            raise UserError(
                f'--size {" ".join(map(str, given))}: give one side, or '
                f'height and width, in multiples of {unit}, or 0 for the own '
                'size of each image')
        return given[0], given[-1]
    trained = training_size(cfg)
    if trained is None:
        return None
    size = tuple(max(round(side / unit), 1) * unit for side in trained)
    if size != tuple(trained):
        print_log(
            f'images are scaled to {size[0]}x{size[1]}, since training has '
            f'{trained[0]}x{trained[1]} and this needs multiples of {unit}; '
            '--size sets another', logger='current', level=logging.WARNING)
    return size


def to_batch(images: list[np.ndarray]) -> torch.Tensor:
    """Stack BGR images (H, W, 3) to an RGB batch, (B, 3, H, W), uint8.

    Raises:
        UserError: If their sizes differ.
    """
    if len({image.shape for image in images}) > 1:
        raise UserError('the images have different sizes, and this analysis '
                        'needs one: give --size PIXELS')
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).flip(1)


def load_encoders(args: Namespace, cfg: Config
                  ) -> tuple[dict[str, Encoder], list[dict]]:
    """Load the encoders of a tool that compares them.

    Args:
        args (Namespace): With ``--also`` and ``--names``.
        cfg (Config): Of the first encoder.

    Returns:
        tuple[dict[str, Encoder], list[dict]]: By name, and their sources.

    Raises:
        UserError: If there are not as many names as encoders, or two equal.
    """
    pairs = [(args.config, args.checkpoint), *args.also]
    names = args.names or [
        osp.splitext(osp.basename(config))[0] for config, _ in pairs]
    if len(names) != len(pairs) or len(set(names)) != len(pairs):
        raise UserError(
            f'{len(pairs)} encoders need {len(pairs)} different names, not '
            f'{", ".join(names)}: give --names')
    encoders, sources = {}, []
    for name, (config, checkpoint) in zip(names, pairs):
        settings = cfg if config == args.config else read_config(config)
        encoders[name] = load_encoder(checkpoint, settings,
                                      device=args.device)
        sources.append(dict(name=name, config=config, checkpoint=checkpoint))
    return encoders, sources
