# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Spatial correlation of the feature map over many images.

Of the encoder of any configuration with model.backbone; --also puts further
encoders into the same figure.
"""
import argparse

import numpy as np
import torch

from qbheat_mm.analysis.correlation import (
    chance_correlation,
    spatial_correlation,
)
from qbheat_mm.analysis.figures.correlation import draw_histograms
from qbheat_mm.analysis.report import Report, Table
from qbheat_mm.apis import load_encoder
from qbheat_mm.cli import read_config, report_user_errors
from qbheat_mm.cli.analysis_tool import (
    add_further_models,
    analysis_parser,
    as_batch,
    further_models,
    print_tables,
    read_images,
    read_settings,
    write,
)
from qbheat_mm.errors import UserError
from qbheat_mm.evaluation.encoder import Encoder

CAPTION = (
    'For each image, the mean absolute correlation over channels of two '
    'different positions of the last feature map: 1 if all positions say the '
    'same. The dotted lines are the values of unrelated positions, which are '
    'not 0 since finitely many channels correlate by chance.')


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = analysis_parser(__doc__)
    add_further_models(parser)
    return parser.parse_args()


@torch.no_grad()
def correlate(encoder: Encoder, images: list,
              device: str) -> tuple[np.ndarray, int]:
    """Spatial correlation of each image, (N, ), and the channels."""
    values = []
    for image in images:
        inputs = encoder.normalize(as_batch([image]).flip(1).to(device))
        maps = [feat for feat in encoder(inputs) if feat.dim() == 4]
        if not maps or maps[-1][0, 0].numel() < 2:
            raise UserError(
                f'{type(encoder.backbone).__name__} gives no feature map of '
                'at least two positions for images of '
                f'{image.shape[0]}x{image.shape[1]} pixels: set its '
                'out_indices, or give a larger --size')
        values.append(float(spatial_correlation(maps[-1])))
    return np.array(values), maps[-1].shape[1]


def main() -> None:
    """Correlate."""
    args = parse_args()
    cfg = read_settings(args)
    files, images = read_images(args, cfg, 32)
    found, chance, sources = {}, {}, []
    for name, config, checkpoint in further_models(args):
        settings = cfg if config == args.config else read_config(config)
        encoder = load_encoder(checkpoint, settings, device=args.device)
        found[name], channels = correlate(encoder, images, args.device)
        chance[name] = chance_correlation(channels)
        sources.append(dict(name=name, config=config, checkpoint=checkpoint))
    table = Table(
        f'Spatial correlation over {len(images)} images',
        ['model', 'mean', 'standard deviation', 'unrelated positions'])
    for name, values in found.items():
        table.rows.append([name, float(values.mean()), float(values.std()),
                           chance[name]])
    report = Report(
        'correlation', 'Spatial correlation of the feature map', CAPTION,
        tables=[table],
        numbers=dict(models={
            name: dict(mean=float(values.mean()), std=float(values.std()),
                       chance=chance[name], images=dict(
                           zip(files, values.tolist())))
            for name, values in found.items()}),
        source=dict(config=args.config, checkpoint=args.checkpoint,
                    models=sources, images=len(files)))
    write(args.out, report,
          dict(correlation=draw_histograms(found, chance)), found)
    print_tables(report)


if __name__ == '__main__':
    report_user_errors(main)
