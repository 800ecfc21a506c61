# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write the embeddings of any number of images to a file.

FILE.npz contains the arrays `embeddings` (N, D) and `files` (N,). Unreadable
images are skipped with a warning.
"""
import argparse
from collections.abc import Iterator

import numpy as np
from mmengine.utils import ProgressBar

from qbheat_mm.apis import embed_batches, list_images, load_encoder
from qbheat_mm.cli.arguments import add_embedding_arguments, target
from qbheat_mm.cli.embeddings import embedding_options, write_embeddings
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.errors import UserError


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        'checkpoint',
        help='encoder.safetensors or a checkpoint, file or URL')
    parser.add_argument(
        'images', nargs='+', help='image files or folders of images')
    parser.add_argument(
        '--out', required=True, type=target, metavar='FILE.npz',
        help='file to write')
    add_embedding_arguments(parser)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    if not args.out.endswith('.npz'):
        raise UserError(f"--out '{args.out}' must end in .npz")
    images = list_images(args.images)
    encoder = load_encoder(args.checkpoint, args.config, device=args.device)
    bar = ProgressBar(len(images))

    def watched() -> Iterator[tuple[list[str], np.ndarray]]:
        for names, vectors in embed_batches(
                encoder, images, **embedding_options(args)):
            bar.update(len(names))
            yield names, vectors

    write_embeddings(args.out, watched())
    print(f'\n{bar.completed} embeddings in {args.out} ({encoder.name}, '
          f'pool={args.pool})')


if __name__ == '__main__':
    report_user_errors(main)
