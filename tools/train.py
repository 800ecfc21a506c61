# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Train with a config of mmpretrain or mmdet."""
import argparse
import os.path as osp

from mmengine.config import Config
from mmengine.device import get_device
from mmengine.registry import RUNNERS

from qbheat_mm import cli
from qbheat_mm.cli.arguments import add_common_arguments
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.config.reading import read_config
from qbheat_mm.engine.auto_scale_runner import use_float32
from qbheat_mm.engine.run_state import latest
from qbheat_mm.errors import UserError
from qbheat_mm.utils.settings import type_name


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_common_arguments(parser)
    parser.add_argument(
        '--resume', nargs='?', const='auto', metavar='CHECKPOINT',
        help='resume from CHECKPOINT or the latest one in the work folder')
    parser.add_argument(
        '--amp', action=argparse.BooleanOptionalAction,
        help='override whether to train in mixed precision')
    parser.add_argument(
        '--compile', action='store_true',
        help='compile what gains from it; the first steps take minutes')
    parser.add_argument(
        '--auto-scale-lr', action='store_true',
        help='scale the learning rate with the batch size')
    parser.add_argument(
        '--no-validate', action='store_true',
        help='train without evaluating between epochs')
    return parser.parse_args()


def apply_arguments(cfg: Config, args: argparse.Namespace) -> None:
    """Apply the arguments to the config."""
    cli.apply_common_arguments(cfg, args)
    if args.no_validate:
        cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    if args.compile:
        cfg.compile = cfg.get('compile') or True
    folder = osp.dirname(args.config) or '.'
    if (args.resume == 'auto' and not args.work_dir
            and latest(cfg.work_dir) is None and latest(folder)):
        raise UserError(
            f"--resume: '{cfg.work_dir}' has no checkpoint, but the config's "
            f'folder has: add --work-dir {folder}')
    if args.resume is not None:
        # load_from is used until there is something to resume.
        starts = (args.resume == 'auto' and cfg.get('load_from')
                  and latest(cfg.work_dir) is None)
        cfg.resume = not starts
        if not starts:
            cfg.load_from = None if args.resume == 'auto' else args.resume
    if args.resume not in (None, 'auto'):
        cli.require_file(args.resume, '--resume')
    elif cfg.get('load_from'):
        cfg.load_from = cli.find_checkpoint(cfg.load_from, 'load_from')
    if args.auto_scale_lr:
        if 'base_batch_size' not in (cfg.get('auto_scale_lr') or {}):
            raise UserError('--auto-scale-lr needs '
                            'auto_scale_lr.base_batch_size in the config')
        cfg.auto_scale_lr.enable = True
    set_precision(cfg, args.amp)


def set_precision(cfg: Config, amp: bool | None) -> None:
    """Switch mixed precision on or off; None keeps the setting."""
    wrapper = cfg.optim_wrapper
    if amp:
        if get_device() == 'cpu':
            raise UserError('--amp needs a GPU: omit it or use --no-amp')
        wrapper.type = 'AmpOptimWrapper'
        wrapper.setdefault('loss_scale', 'dynamic')
    elif amp is False and type_name(wrapper) == 'AmpOptimWrapper':
        use_float32(wrapper)


def main() -> None:
    """Train."""
    args = parse_args()
    cfg = read_config(args.config, args.cfg_options)
    apply_arguments(cfg, args)
    cli.init_processes(cfg)
    cfg.setdefault('runner_type', 'AutoScaleRunner')
    RUNNERS.build(cfg).train()


if __name__ == '__main__':
    report_user_errors(main)
