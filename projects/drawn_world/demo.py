# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pre-train on drawn images, evaluate the frozen encoder, draw its analyses.

Every step is a command of this project, printed so that you can repeat it.
"""
import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
from mmengine.config import Config
from PIL import Image

from projects.drawn_world.data import ensure_demo_data
from projects.study.jobs import Job, run_jobs
from projects.study.results import read_metric
from qbheat_mm.analysis.run_log import draw_panels, read_curves
from qbheat_mm.cli.arguments import count
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.report import Report, Table
from qbheat_mm.report.style import picture_rows

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = Path(__file__).resolve().parent / 'configs'

#: Training configs of the encoders.
ENCODERS = {
    'random': None,
    'calibrated': 'qbheat_mf-demo_random.py',
    'pretrained': 'qbheat_mf-demo_pretrain.py'
}
#: Configs of the probes, the longest first to keep two cores busy.
PROBES = {
    'retinanet': 'retinanet_mf-demo_fpn_frozen.py',
    'tran1': 'mf-demo_tran1.py',
    'linear': 'mf-demo_linear.py'
}
#: Rows of the table: title, probe and logged metric.
ROWS = (
    ('lin, top-1 (%)', 'linear', 'accuracy/top1'),
    ('tran-1, top-1 (%)', 'tran1', 'accuracy/top1'),
    ('RetinaNet, AP', 'retinanet', 'coco/bbox_mAP'),
    ('RetinaNet, AP50', 'retinanet', 'coco/bbox_mAP_50'),
)
TITLE = 'Results on frozen encoders'
CAPTION = (
    'Two probes (lin: a linear classifier; tran-1: one transformer block) and '
    'a detector, trained the same way on frozen encoders. random: as '
    'initialized. calibrated (with --calibrated): random, but batch norm has '
    'the statistics of the images. pretrained: by QB-Heat, without labels. AP '
    'is COCO average precision in percent. Expect pretrained to win clearly; '
    'this is one seed on drawn images, so do not compare methods by it. '
    'Pictures: ground truth (left) and detections on the pre-trained encoder '
    '(right); training losses over steps.')

#: A few images and steps, for tests.
FAST_TRAIN = ['train_cfg.max_epochs=2', 'train_dataloader.batch_size=8',
              'train_dataloader.dataset.sizes=tiny']
FAST_PROBE = [*FAST_TRAIN, 'train_cfg.val_interval=2',
              'val_dataloader.dataset.sizes=tiny']
FAST_WARMUP = ['param_scheduler.0.end=1', 'param_scheduler.1.begin=1']
#: Test images whose detections are drawn.
SHOWN = 4


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--out', type=Path, default=Path('work_dirs/demo'))
    parser.add_argument('--jobs', type=count, default=2,
                        help='commands at the same time')
    parser.add_argument('--calibrated', action='store_true',
                        help='add a random encoder whose batch norm has the '
                        'statistics of the images')
    parser.add_argument('--fast', action='store_true',
                        help='few images and steps, for tests')
    args = parser.parse_args()
    args.out = args.out.resolve()
    args.encoders = list(ENCODERS)
    if not args.calibrated:
        args.encoders.remove('calibrated')
    return args


def tool(name: str, *arguments) -> list[str]:
    """Command line of a tool."""
    return [sys.executable, str(ROOT / 'tools' / name), *map(str, arguments)]


def last_epoch(config: str, args: argparse.Namespace) -> int:
    """Number of the last epoch of a config."""
    if args.fast:
        return 2
    return Config.fromfile(CONFIGS / config).train_cfg.max_epochs


def encoder_job(encoder: str, args: argparse.Namespace) -> Job:
    """Train an encoder on the unlabeled images."""
    return Job(encoder, tool(
        'train.py', CONFIGS / ENCODERS[encoder], '--work-dir',
        args.out / encoder / 'encoder', '--cfg-options',
        f'randomness.seed={args.seed}', *(FAST_TRAIN if args.fast else ())))


def probe_job(encoder: str, probe: str, args: argparse.Namespace) -> Job:
    """Train and evaluate a probe on a frozen encoder."""
    weights = 'model.backbone.init_cfg=None'
    if ENCODERS[encoder]:
        file = args.out / encoder / 'encoder/encoder.safetensors'
        weights = f'encoder={str(file)!r}'
    options = [weights, f'randomness.seed={args.seed}']
    if args.fast:
        options += FAST_PROBE + (FAST_WARMUP if probe == 'tran1' else [])
    return Job(f'{encoder}-{probe}', tool(
        'train.py', CONFIGS / PROBES[probe], '--work-dir',
        args.out / encoder / probe, '--cfg-options', *options),
        [encoder] if ENCODERS[encoder] else [])


def detection_job(args: argparse.Namespace) -> Job:
    """Draw detections on the pre-trained encoder next to the ground truth."""
    config, folder = PROBES['retinanet'], args.out / 'pretrained/retinanet'
    sizes = 'tiny' if args.fast else 'full'
    return Job('detections', tool(
        'test.py', CONFIGS / config,
        folder / f'epoch_{last_epoch(config, args)}.pth', '--work-dir',
        folder / 'test', '--show-dir', 'detections', '--cfg-options',
        f'test_dataloader.dataset.sizes={sizes}',
        f'test_dataloader.dataset.indices={SHOWN}', 'test_evaluator=[]'),
        ['pretrained-retinanet'])


def analysis_job(data: Path, args: argparse.Namespace) -> Job:
    """Analyze the pre-training."""
    config, folder = ENCODERS['pretrained'], args.out / 'pretrained/encoder'
    last = last_epoch(config, args)
    epochs = [last] if args.fast else range(3, last + 1, 3)
    few = ['--num-pictures', 2, '--num-statistics', 4] if args.fast else []
    return Job('analysis', tool(
        'analysis/run_all.py', CONFIGS / config,
        *(folder / f'epoch_{epoch}.pth' for epoch in epochs), '--images',
        data / 'classification/val', '--out', args.out / 'analysis', *few),
        ['pretrained'])


def all_jobs(data: Path, args: argparse.Namespace) -> list[Job]:
    """List all jobs, the pre-trained encoder's first."""
    jobs = []
    for encoder in reversed(args.encoders):
        if ENCODERS[encoder]:
            jobs.append(encoder_job(encoder, args))
    for probe in PROBES:
        for encoder in reversed(args.encoders):
            jobs.append(probe_job(encoder, probe, args))
    return [*jobs, detection_job(args), analysis_job(data, args)]


def draw_pictures(args: argparse.Namespace) -> dict:
    """Draw detections and training losses; return figures by name."""
    files = sorted(args.out.glob('pretrained/retinanet/test/*/detections/*'))
    detections, _ = picture_rows(
        [{'': np.asarray(Image.open(file))} for file in files[-SHOWN:]])
    losses = {'QB-Heat': {
        'loss': read_curves(args.out / 'pretrained/encoder')['loss']}}
    for probe in PROBES:
        losses[probe] = {
            encoder: read_curves(args.out / encoder / probe)['loss']
            for encoder in args.encoders}
    return dict(detections=detections, loss_curves=draw_panels(losses))


def write_results(args: argparse.Namespace) -> None:
    """Print the table; write it, its numbers and pictures as a report."""
    table = Table(f'Seed {args.seed}, all encoders frozen',
                  ['frozen encoder', *args.encoders, 'gain'])
    numbers = {}
    for title, probe, metric in ROWS:
        row = {}
        for encoder in args.encoders:
            value = read_metric(args.out / encoder / probe, metric)
            row[encoder] = round(value, 1)
        gain = round(row['pretrained'] - row['random'], 1)
        table.rows.append([title, *(f'{value:.1f}' for value in row.values()),
                           f'{gain:+.1f}'])
        numbers[title] = dict(row, gain=gain)
    Report('demo', TITLE, CAPTION, [table],
           dict(seed=args.seed, metrics=numbers)).save(
        str(args.out / 'pictures'), draw_pictures(args))


def main() -> None:
    """Run the demo."""
    args = parse_args()
    print('Drawing the data unless they are there ...', flush=True)
    data = ensure_demo_data('tiny' if args.fast else 'full')
    print(f'The data are in {data}', flush=True)
    run_jobs(all_jobs(data, args), args.out / 'logs', args.jobs)
    write_results(args)
    subprocess.run(tool('analysis/story.py', args.out, '--title',
                        f'QB-Heat on drawn images, seed {args.seed}'),
                   check=True)


if __name__ == '__main__':
    report_user_errors(main)
