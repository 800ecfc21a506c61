# Copyright (c) QB-Heat MM authors. All rights reserved.
"""All analyses of one pre-training run, and the page that shows them.

Takes the checkpoints of a run, oldest first. Energy ratios use all of
them, other analyses the last.
"""
import argparse

import attention
import correlation
import heat_flow
import reconstruct
import spectrum
import story

from qbheat_mm.analysis.matrices import learned_matrices
from qbheat_mm.cli.arguments import analysis_parser, count
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.config.reading import read_config
from qbheat_mm.models.layers import MobileFormerBlock
from qbheat_mm.trained.model import build_pretraining


def parse_args() -> argparse.Namespace:
    parser = analysis_parser(__doc__, images=False, compare=True)
    parser.add_argument(
        '--images', nargs='+', required=True,
        help='image files or folders of images')
    parser.add_argument(
        '--num-pictures', type=count, default=4, metavar='N',
        help='images in the pictures; defaults to 4')
    parser.add_argument(
        '--num-statistics', type=count, default=100, metavar='N',
        help='images in the statistics; defaults to 100')
    parser.add_argument(
        '--title', default='What QB-Heat has learned',
        help='headline of the page')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    common = ['--out', args.out, '--device', args.device]
    if args.cfg_options:
        common += ['--cfg-options', *(
            f'{key}={value!r}' for key, value in args.cfg_options.items())]
    further = []
    for config, checkpoint in args.also:
        further += ['--also', config, checkpoint]
    if args.names:
        further += ['--names', *args.names]

    def analyze(tool, number: int, *arguments: str) -> None:
        tool.main([args.config, args.checkpoint[-1], *args.images,
                   '--max-images', str(number), *arguments, *common])

    model = build_pretraining(read_config(args.config, args.cfg_options),
                              args.config)
    analyze(reconstruct, args.num_pictures, '--use-visible-patch-statistics')
    if learned_matrices(model.predictor):
        analyze(heat_flow, args.num_statistics, '--rows',
                str(args.num_pictures))
        spectrum.main([args.config, *args.checkpoint, *common])
    analyze(correlation, args.num_statistics, *further)
    if any(isinstance(part, MobileFormerBlock) for part in model.modules()):
        # Two pictures for each image, of many maps each.
        analyze(attention, min(2, args.num_pictures), *further)
    story.main([args.out, '--title', args.title])


if __name__ == '__main__':
    report_user_errors(main)
