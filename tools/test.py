# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Test a checkpoint with mmpretrain or mmdet; the configuration says which."""
import argparse

import mmengine
from mmengine.config import Config
from mmengine.dist import is_main_process
from mmengine.evaluator import DumpResults
from mmengine.registry import RUNNERS

from qbheat_mm.errors import UserError
from qbheat_mm.launching import (
    add_common_arguments,
    apply_common_arguments,
    check_data,
    init_processes,
    read_config,
    report_user_errors,
    require_file,
)


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_common_arguments(parser)
    parser.add_argument('checkpoint', help='checkpoint file or URL')
    parser.add_argument(
        '--out', metavar='FILE.pkl', help='write the predictions')
    parser.add_argument(
        '--out-metrics',
        metavar='FILE.json',
        help='write the metrics that are printed')
    parser.add_argument(
        '--show-dir',
        help='write pictures of predictions into this folder below the work '
        'folder (detection) or into this folder (classification)')
    return parser.parse_args()


def draw_pictures(cfg: Config, folder: str) -> None:
    """Let the toolbox's hook write pictures into ``folder``.

    Raises:
        UserError: If the configuration has no such hook.
    """
    hook = cfg.get('default_hooks', {}).get('visualization')
    if hook is None:
        raise UserError('--show-dir needs the hook that draws: add '
                        '--cfg-options default_hooks.visualization.type='
                        'VisualizationHook (DetVisualizationHook in mmdet)')
    if cfg.default_scope == 'mmdet':
        hook.update(draw=True, test_out_dir=folder)
    else:
        hook.update(enable=True, out_dir=folder, interval=1)


def main() -> None:
    """Test."""
    args = parse_args()
    cfg = read_config(args.config, args.cfg_options)
    apply_common_arguments(cfg, args)
    require_file(args.checkpoint, 'checkpoint')
    cfg.load_from = args.checkpoint
    cfg.resume = False
    if args.show_dir:
        draw_pictures(cfg, args.show_dir)
    for option, file, endings in (('--out', args.out, ('.pkl', '.pickle')),
                                  ('--out-metrics', args.out_metrics,
                                   ('.json', ))):
        if file and not file.endswith(endings):
            raise UserError(f"{option} '{file}': the name must end with "
                            f'{" or ".join(endings)}')
    check_data(cfg, ('test', ))
    init_processes(cfg)
    runner = RUNNERS.build(cfg)
    if args.out:
        runner.test_evaluator.metrics.append(
            DumpResults(out_file_path=args.out))
    metrics = runner.test()
    if args.out_metrics and is_main_process():
        mmengine.dump(metrics, args.out_metrics)


if __name__ == '__main__':
    report_user_errors(main)
