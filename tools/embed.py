# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write the embeddings of images, any number of them, into a file.

FILE.npz holds the arrays `embeddings` (N, D) and `files` (N,), FILE.csv and
FILE.parquet a row for each image. Unreadable images are left out
with a warning.
"""
import argparse
from collections.abc import Iterator

import numpy as np
from mmengine.utils import ProgressBar

from qbheat_mm.apis import embed_batches, list_images, load_encoder
from qbheat_mm.cli import report_user_errors
from qbheat_mm.cli.command_line import target
from qbheat_mm.cli.embeddings import (
    add_embedding_arguments,
    embedding_options,
    embedding_writer,
)


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('checkpoint', help='checkpoint file or URL')
    parser.add_argument(
        'images', nargs='+', help='image files or folders of images')
    parser.add_argument(
        '--out', required=True, type=target,
        metavar='FILE.{npz,csv,parquet}', help='where to write')
    parser.add_argument(
        '--config', help='configuration, for a checkpoint of bare weights: a '
        'file or a name of ours')
    add_embedding_arguments(parser)
    return parser.parse_args()


def main() -> None:
    """Embed."""
    args = parse_args()
    write = embedding_writer(args.out)
    images = list_images(args.images)
    encoder = load_encoder(args.checkpoint, args.config, device=args.device)
    bar, shape = ProgressBar(len(images)), [0, 0]

    def watched() -> Iterator[tuple[list[str], np.ndarray]]:
        for names, vectors in embed_batches(
                encoder, images, **embedding_options(args)):
            bar.update(len(names))
            shape[:] = shape[0] + len(names), vectors.shape[1]
            yield names, vectors

    write(watched())
    print(f'\n{shape[0]} embeddings of {shape[1]} numbers in {args.out} '
          f'({encoder.name}, pool={args.pool})')


if __name__ == '__main__':
    report_user_errors(main)
