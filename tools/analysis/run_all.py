# Copyright (c) QB-Heat MM authors. All rights reserved.
"""All analyses of one pre-training run, and the page that shows them.

Takes the checkpoints of a run, oldest first; all give energy ratios, the last
one everything else.
"""
import argparse
import sys

import attention
import correlation
import heat_flow
import reconstruct
import spectrum
import story

from qbheat_mm.analysis.matrices import linear_models
from qbheat_mm.cli import count, folder, read_config, report_user_errors
from qbheat_mm.cli.analysis_tool import add_further_models
from qbheat_mm.cli.command_line import add_cfg_options, add_device
from qbheat_mm.cli.trained_model import build_pretraining
from qbheat_mm.models.layers import MobileFormerBlock


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='config of the pre-training')
    parser.add_argument(
        'checkpoint', nargs='+', help='its checkpoints, the last one last')
    parser.add_argument(
        '--images', nargs='+', required=True,
        help='image files or folders of images')
    parser.add_argument(
        '--out', required=True, type=folder, help='folder for results')
    parser.add_argument(
        '--num-pictures', type=count, default=4, metavar='N',
        help='images that pictures are made of; defaults to 4')
    parser.add_argument(
        '--num-statistics', type=count, default=100, metavar='N',
        help='images that statistics are taken over; defaults to 100')
    parser.add_argument(
        '--title', default='What QB-Heat has learned',
        help='headline of the page')
    add_further_models(parser)
    add_device(parser)
    add_cfg_options(parser)
    return parser.parse_args()


def call(tool, *arguments) -> None:
    """Run another tool of this folder as its own command would."""
    before = sys.argv
    sys.argv = [tool.__file__, *map(str, arguments)]
    try:
        tool.main()
    finally:
        sys.argv = before


def main() -> None:
    args = parse_args()
    last = args.checkpoint[-1]
    common = ['--out', args.out, '--device', args.device]
    if args.cfg_options:
        common += ['--cfg-options', *(
            f'{key}={value!r}' for key, value in args.cfg_options.items())]
    further = [word for pair in args.also for word in ('--also', *pair)]
    if args.names:
        further += ['--names', *args.names]
    few = [*args.images, '--max-images', args.num_pictures]
    many = [*args.images, '--max-images', args.num_statistics]

    model = build_pretraining(read_config(args.config, args.cfg_options),
                              args.config)
    call(reconstruct, args.config, last, *few,
         '--use-visible-patch-statistics', *common)
    if linear_models(model.predictor):
        call(heat_flow, args.config, last, *many, '--rows', args.num_pictures,
             *common)
        call(spectrum, args.config, *args.checkpoint, *common)
    else:
        print('left out: heat_flow.py and spectrum.py, as the predictor '
              f"learns no matrices A and B ('{args.config}')")
    call(correlation, args.config, last, *many, *further, *common)
    if any(isinstance(part, MobileFormerBlock) for part in model.modules()):
        # Two pictures for each image, of many maps each.
        call(attention, args.config, last, *args.images, '--max-images',
             min(2, args.num_pictures), *further, *common)
    else:
        print('left out: attention.py, as a '
              f'{type(model.backbone).__name__} has no bridges between '
              'pixels and tokens')
    call(story, args.out, '--title', args.title)


if __name__ == '__main__':
    report_user_errors(main)
