# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Spatial correlation of the feature map over many images.

For the encoder of any config with model.backbone; --also adds further
encoders to the figure.
"""

import numpy as np
import torch

from qbheat_mm.analysis.correlation import (
    chance_correlation,
    draw_histograms,
    spatial_correlation,
)
from qbheat_mm.cli.analysis_tool import load_encoders, to_batch
from qbheat_mm.cli.arguments import analysis_parser
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.errors import UserError
from qbheat_mm.report import Report, Table
from qbheat_mm.trained import Encoder

CAPTION = (
    'For each image, the mean absolute correlation over channels of two '
    'different positions of the last feature map: 1 if all positions are the '
    'same. Dotted: unrelated positions, which correlate by chance as channels '
    'are finitely many. Compare encoders with each other; neither a high nor '
    'a low value is better in itself.')


@torch.no_grad()
def correlate(encoder: Encoder, images: list) -> tuple[np.ndarray, int]:
    """Return the correlation of each image, (N, ), and the channels."""
    values = []
    for image in images:
        maps = [feat for feat in encoder(encoder.normalize(to_batch([image])))
                if feat.dim() == 4]
        if not maps or maps[-1][0, 0].numel() < 2:
            raise UserError(
                f'{encoder.name} gives no feature map of at least two '
                f'positions for images of {image.shape[0]}x{image.shape[1]} '
                'pixels: set its out_indices, or give a larger --size')
        values.append(float(spatial_correlation(maps[-1])))
    return np.array(values), maps[-1].shape[1]


def main(argv: list[str] | None = None) -> None:
    args = analysis_parser(__doc__, compare=True).parse_args(argv)
    encoders, files, images = load_encoders(args)
    correlations, chance, numbers = {}, {}, {}
    for name, encoder in encoders.items():
        values, channels = correlate(encoder, images)
        correlations[name] = values
        chance[name] = chance_correlation(channels)
        numbers[name] = dict(mean=float(values.mean()),
                             std=float(values.std()), chance=chance[name])
    report = Report(
        'correlation', 'Spatial correlation of the feature map', CAPTION,
        tables=[Table(
            f'Spatial correlation over {len(images)} images',
            ['model', 'mean', 'standard deviation', 'unrelated positions'],
            [[name, *row.values()] for name, row in numbers.items()])],
        numbers=dict(models=numbers, images=files))
    report.save(
        args.out,
        dict(correlation=draw_histograms(correlations, chance)), correlations)


if __name__ == '__main__':
    report_user_errors(main)
