# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Draw the README's strip: what a pre-trained network makes of photographs.

Each line shows a photograph, its visible quarter, what the network predicted
from it, and the nearest of the images that it learned from.
"""
from argparse import ArgumentParser

import numpy as np
from PIL import Image
from scipy.spatial.distance import cdist

from qbheat_mm.analysis.reconstruction import (
    hide,
    reconstruct,
    render,
    to_picture,
    trained_positions,
)
from qbheat_mm.apis import embed, load_encoder
from qbheat_mm.cli.analysis_tool import load_run, to_batch
from qbheat_mm.cli.arguments import analysis_parser
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.datasets import load_images

NEIGHBORS = 4
#: Pixels between pictures.
GAP = 4


def parser() -> ArgumentParser:
    """Create the parser."""
    parser = analysis_parser(__doc__)
    parser.add_argument('--train', required=True,
                        help='the folder that the network learned from')
    return parser


def line_up(pictures: list[np.ndarray]) -> np.ndarray:
    """Join pictures (H, W, 3), with white between them."""
    gap = np.full((len(pictures[0]), GAP, 3), 255, np.uint8)
    parts = [pictures[0]]
    for picture in pictures[1:]:
        parts += [gap, picture]
    return np.concatenate(parts, axis=1)


def main() -> None:
    """Draw it."""
    args = parser().parse_args()
    model, normalize, files, images = load_run(args)
    encoder = load_encoder(args.checkpoint, args.config)
    train = embed(encoder, args.train)
    distances = cdist(embed(encoder, files).embeddings, train.embeddings,
                      'cosine')
    positions = trained_positions(model)
    lines = []
    for number, image in enumerate(images):
        shown = reconstruct(model, normalize(to_batch([image])),
                            positions[number % len(positions)])
        line = [to_picture(normalize.inverse(shown.images))[0],
                hide(shown, normalize)[0],
                render(shown, model, normalize, 'visible')[0]]
        nearest = distances[number].argsort()[:NEIGHBORS]
        _, found = load_images([train.files[index] for index in nearest],
                               image.shape[:2], 1)
        for neighbor in found:
            line.append(neighbor[..., ::-1])
        lines.append(line_up(line).swapaxes(0, 1))
    strip = line_up(lines).swapaxes(0, 1)
    file = f'{args.out}/strip.jpg'
    Image.fromarray(strip).save(file, quality=85)
    print(file)


if __name__ == '__main__':
    report_user_errors(main)
