# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Arguments, images and models of the tools that analyze a trained model."""
import os.path as osp
from argparse import ArgumentParser, Namespace

import numpy as np
import torch
from mmengine.config import Config

from ..apis import load_encoder
from ..datasets import find_images, load_images, spread
from ..errors import UserError
from ..models.selfsup import QBHeat
from ..trained.encoder import Encoder
from ..trained.model import build_pretraining, load_pretraining
from ..trained.normalization import Normalization, Normalize
from ..utils.settings import training_size
from .command_line import add_cfg_options, add_device, count, folder, whole
from .settings import read_config


def analysis_parser(description: str,
                    images: bool = True,
                    compare: bool = False) -> ArgumentParser:
    """Create the parser of an analysis.

    Args:
        description (str): Of the tool.
        images (bool): Whether it takes images, and otherwise several
            checkpoints. Defaults to True.
        compare (bool): Whether it compares encoders. Defaults to False.
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
            '--size', type=whole, nargs='+', metavar='PIXELS',
            help='scale and crop images to this side, or height and width; '
            'by default the size of the training pipeline; 0 keeps the size '
            'of each image; rounded to what the model accepts')
    parser.add_argument(
        '--out', required=True, type=folder, help='folder for results')
    if compare:
        parser.add_argument(
            '--also', nargs=2, action='append', default=[],
            metavar=('CONFIG', 'CHECKPOINT'),
            help='another encoder to compare with; may be repeated')
        parser.add_argument(
            '--names', nargs='+', default=[], metavar='NAME',
            help='names of the encoders in the figure; by default those of '
            'their configs')
    add_device(parser)
    add_cfg_options(parser)
    return parser


def read_images(args: Namespace, cfg: Config,
                unit: int) -> tuple[list[str], list[np.ndarray]]:
    """Read the images of a tool's arguments, see :func:`load_images`.

    Raises:
        UserError: If there is no image, or ``--size`` has three values.
    """
    files = find_images(args.images)
    size = args.size or training_size(cfg) or [0]
    if len(size) > 2:
        raise UserError(f'--size {" ".join(map(str, size))}: give one side, '
                        'or height and width')
    fitted = tuple(max(round(side / unit), 1) * unit
                   for side in (size[0], size[-1])) if any(size) else None
    if args.size != [0] and fitted and fitted != (size[0], size[-1]):
        print(f'images are scaled to {fitted[0]}x{fitted[1]}: the model '
              f'needs multiples of {unit}')
    files, images = load_images(
        spread(files, args.max_images or len(files)), fitted, unit)
    # File names may contain bytes that are no text.
    return [file.encode('utf-8', 'replace').decode() for file in files], images


def to_batch(images: list[np.ndarray]) -> torch.Tensor:
    """Stack BGR images (H, W, 3) to an RGB batch, (B, 3, H, W), uint8.

    Raises:
        UserError: If their sizes differ.
    """
    if len({image.shape for image in images}) > 1:
        raise UserError('the images have different sizes, and this analysis '
                        'needs one: give --size PIXELS')
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).flip(1)


def load_run(args: Namespace, linear: bool = False
             ) -> tuple[QBHeat, Normalize, list[str], list[np.ndarray]]:
    """Load the pre-training model and the images of a tool's arguments.

    Args:
        args (Namespace): Of :func:`analysis_parser`.
        linear (bool): Require matrices A and B. Defaults to False.

    Returns:
        tuple[QBHeat, Normalize, list[str], list[np.ndarray]]: The model and
        the normalization of its input, on ``--device``; the images' files
        and the images, see :func:`load_images`.
    """
    cfg = read_config(args.config, args.cfg_options)
    model = build_pretraining(cfg, args.config, linear)
    load_pretraining(model, args.checkpoint)
    normalize = Normalize(Normalization.of(model))
    return (model.to(args.device), normalize.to(args.device),
            *read_images(args, cfg, model.size_unit))


def load_encoders(args: Namespace
                  ) -> tuple[dict[str, Encoder], list[str], list[np.ndarray]]:
    """Load the encoders and the images of a tool that compares encoders.

    Args:
        args (Namespace): Of :func:`analysis_parser` with ``compare=True``.

    Returns:
        tuple[dict[str, Encoder], list[str], list[np.ndarray]]: The encoders
        by name, the images' files and the images, see :func:`load_images`.

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
    cfgs = [read_config(args.config, args.cfg_options),
            *(read_config(config) for config, _ in args.also)]
    encoders = {name: load_encoder(checkpoint, cfg, device=args.device)
                for name, cfg, (_, checkpoint) in zip(names, cfgs, pairs)}
    return (encoders, *read_images(args, cfgs[0], 32))
