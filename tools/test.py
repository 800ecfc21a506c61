# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Test a checkpoint with a config of mmpretrain or mmdet."""
import argparse

import mmengine
from mmengine.dist import is_main_process
from mmengine.registry import METRICS, RUNNERS

from qbheat_mm import cli
from qbheat_mm.cli.arguments import add_common_arguments, target
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.config.reading import read_config
from qbheat_mm.errors import UserError
from qbheat_mm.utils.settings import toolbox


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_common_arguments(parser)
    parser.add_argument('checkpoint', help='file, URL or work folder')
    parser.add_argument(
        '--out', type=target, metavar='FILE.pkl', help='save predictions')
    parser.add_argument(
        '--out-metrics', type=target, metavar='FILE.json',
        help='save the metrics')
    parser.add_argument(
        '--show-dir',
        help='folder for images of predictions; for detection, within the '
        'work folder')
    parser.add_argument(
        '--show', action='store_true',
        help='show each prediction in a window')
    parser.add_argument(
        '--wait-time', type=float, default=2, metavar='SECONDS',
        help='time between images of --show; defaults to 2')
    parser.add_argument(
        '--tta', action='store_true',
        help='augment as in the config, or by flipping')
    return parser.parse_args()


def main() -> None:
    """Test."""
    args = parse_args()
    cfg = read_config(args.config, args.cfg_options)
    cli.apply_common_arguments(cfg, args)
    cfg.load_from = cli.find_checkpoint(args.checkpoint, 'checkpoint')
    cfg.resume = False
    if args.show or args.show_dir:
        cli.draw_predictions(cfg, args.show_dir, args.show, args.wait_time)
    for file, extensions in ((args.out, ('.pkl', '.pickle')),
                             (args.out_metrics, ('.json', ))):
        if file and not file.endswith(extensions):
            raise UserError(f"'{file}' must end with {extensions[0]}")
    if args.tta:
        cli.augment_at_test_time(cfg)
    cli.init_processes(cfg)
    cfg.setdefault('runner_type', 'AutoScaleRunner')
    runner = RUNNERS.build(cfg)
    if args.out:
        # mmdet's run-length encodes masks, which would fill the memory.
        kind = ('mmdet.DumpDetResults' if toolbox(cfg) == 'mmdet'
                else 'DumpResults')
        runner.test_evaluator.metrics.append(
            METRICS.build(dict(type=kind, out_file_path=args.out)))
    metrics = runner.test()
    if args.out_metrics and is_main_process():
        mmengine.dump(metrics, args.out_metrics)


if __name__ == '__main__':
    report_user_errors(main)
