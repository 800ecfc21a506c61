# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write the embeddings of images, any number of them, into a file.

FILE.npz holds the arrays `embeddings` (N, D) and `files` (N,), FILE.csv and
FILE.parquet a row for each image. An image that cannot be decoded is named
and left out.
"""
import argparse

from mmengine.utils import ProgressBar

from qbheat_mm.apis import embed_batches, list_images, load_encoder
from qbheat_mm.cli import report_user_errors
from qbheat_mm.cli.command_line import target
from qbheat_mm.cli.embedding_files import open_for_embeddings
from qbheat_mm.cli.embedding_tool import (
    add_embedding_arguments,
    embedding_options,
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
    images = list_images(args.images)
    encoder = load_encoder(args.checkpoint, args.config, device=args.device)
    written = width = 0
    with open_for_embeddings(args.out) as file:
        bar = ProgressBar(len(images))
        for names, vectors in embed_batches(
                encoder, images, **embedding_options(args)):
            file.add(names, vectors)
            written += len(names)
            width = vectors.shape[1]
            bar.update(len(names))
    print(f'\n{written} embeddings of {width} numbers in {args.out} '
          f'({encoder.name}, pool={args.pool})')


if __name__ == '__main__':
    report_user_errors(main)
