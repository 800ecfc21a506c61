# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What the tools that embed images share."""
from argparse import ArgumentParser, Namespace

from ..evaluation.encoder import POOLS
from .command_line import add_device, count, whole


def add_embedding_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of how images become vectors."""
    parser.add_argument(
        '--pool', choices=POOLS, default='avg',
        help='features averaged over the image, the first token, both in a '
        "row, or the features' maxima; defaults to avg")
    parser.add_argument(
        '--size', type=whole, nargs='+', metavar='PIXELS',
        help='scale and crop images to this side, or height and width; by '
        'default the size of the training, or 224; 0 keeps the size of each '
        'image, rounded to multiples of 32')
    parser.add_argument(
        '--batch-size', type=count, default=64,
        help='images at a time; defaults to 64')
    parser.add_argument(
        '--workers', type=whole, default=0,
        help='processes that decode images; defaults to 0, none')
    add_device(parser)


def embedding_options(args: Namespace) -> dict:
    """The arguments as those of :func:`embed_batches`."""
    return dict(pool=args.pool, size=args.size, batch_size=args.batch_size,
                workers=args.workers)
