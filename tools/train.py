# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Train with mmpretrain or mmdet; the configuration says which."""
import argparse

from mmengine.config import Config
from mmengine.device import get_device
from mmengine.registry import RUNNERS

from qbheat_mm.cli import (
    add_common_arguments,
    apply_common_arguments,
    check_boxes,
    check_data,
    init_processes,
    read_config,
    report_user_errors,
    require_file,
    require_parts,
)
from qbheat_mm.engine.auto_scale_runner import use_float32
from qbheat_mm.engine.resuming import latest_checkpoint
from qbheat_mm.errors import UserError
from qbheat_mm.utils.settings import type_name


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_common_arguments(parser)
    parser.add_argument(
        '--resume',
        nargs='?',
        const='auto',
        metavar='CHECKPOINT',
        help='go on from CHECKPOINT, or from the latest of the work folder')
    parser.add_argument(
        '--amp',
        action=argparse.BooleanOptionalAction,
        help='train in mixed precision, or not where the configuration does')
    parser.add_argument(
        '--compile',
        action='store_true',
        help='compile the model by torch.compile; the first steps take '
        'minutes')
    parser.add_argument(
        '--auto-scale-lr',
        action='store_true',
        help='scale the learning rate by the batch size that there is over '
        'the one that the configuration was made for')
    parser.add_argument(
        '--no-validate',
        action='store_true',
        help='train without evaluating between epochs')
    return parser.parse_args()


def apply_arguments(cfg: Config, args: argparse.Namespace) -> None:
    """Bring the arguments into the configuration."""
    apply_common_arguments(cfg, args)
    if args.no_validate:
        cfg.val_cfg = cfg.val_dataloader = cfg.val_evaluator = None
    if args.compile:
        cfg.compile = cfg.get('compile') or True
    if args.resume is not None:
        # weights to begin with count as long as there is nothing to resume
        begins = (args.resume == 'auto' and cfg.get('load_from')
                  and latest_checkpoint(cfg.work_dir) is None)
        cfg.resume = not begins
        if not begins:
            cfg.load_from = None if args.resume == 'auto' else args.resume
    if cfg.get('load_from'):
        require_file(cfg.load_from, 'load_from or --resume')
    if args.auto_scale_lr:
        if 'base_batch_size' not in (cfg.get('auto_scale_lr') or {}):
            raise UserError(
                f"--auto-scale-lr: '{args.config}' does not say for which "
                'batch size its learning rate is; add --cfg-options '
                'auto_scale_lr.base_batch_size=N')
        cfg.auto_scale_lr.enable = True
    set_precision(cfg, args.amp)


def set_precision(cfg: Config, amp: bool | None) -> None:
    """Switch mixed precision on or off; None keeps the configuration's."""
    wrapper = cfg.optim_wrapper
    if amp:
        if get_device() == 'cpu':
            raise UserError('--amp: mixed precision needs a GPU and torch '
                            'sees none: leave it out, or say --no-amp')
        wrapper.type = 'AmpOptimWrapper'
        wrapper.setdefault('loss_scale', 'dynamic')
    elif amp is False and type_name(wrapper) == 'AmpOptimWrapper':
        use_float32(wrapper)


def main() -> None:
    """Train."""
    args = parse_args()
    cfg = read_config(args.config, args.cfg_options)
    require_parts(cfg, 'model', 'train_dataloader', 'train_cfg',
                  'optim_wrapper')
    apply_arguments(cfg, args)
    check_data(cfg, ('train', 'val'))
    check_boxes(cfg, ('train', 'val'))
    init_processes(cfg)
    cfg.setdefault('runner_type', 'AutoScaleRunner')
    RUNNERS.build(cfg).train()


if __name__ == '__main__':
    report_user_errors(main)
