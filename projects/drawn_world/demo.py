# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pre-train on drawn images, judge the frozen encoder, show what it learned.

Every step is a command of this project, printed so that it can be repeated.
"""
import argparse
import json
import subprocess
import sys
from pathlib import Path

from mmengine.config import Config

from projects.drawn_world.data import ensure_demo_data
from projects.drawn_world.jobs import Job, run_jobs
from projects.drawn_world.pictures import draw_detections, draw_loss_curves
from projects.drawn_world.results import markdown_table, read_metric
from qbheat_mm.analysis.report import Report, Table, command_line
from qbheat_mm.cli import count, report_user_errors

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = Path(__file__).resolve().parent / 'configs'

#: What trains each encoder; plain random weights need nothing.
ENCODERS = {
    'random': None,
    'calibrated': 'qbheat_mf-demo_random.py',
    'pretrained': 'qbheat_mf-demo_pretrain.py'
}
#: What judges them, the longest first, which keeps two cores busy.
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
    'Pictures: detections with a score of 0.3 or more on the pre-trained '
    'encoder, under the ground truth, and training losses.')

#: A few images and steps, for tests.
FAST_TRAIN = ['train_cfg.max_epochs=2', 'train_dataloader.batch_size=8',
              'train_dataloader.dataset.sizes=tiny']
FAST_PROBE = [*FAST_TRAIN, 'train_cfg.val_interval=2',
              'val_dataloader.dataset.sizes=tiny']
FAST_WARMUP = ['param_scheduler.0.end=1', 'param_scheduler.1.begin=1']
FAST_TEST = ['--cfg-options', 'test_dataloader.dataset.sizes=tiny']


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
    parser.add_argument('--no-analysis', action='store_true',
                        help='skip the pictures of what was learned')
    parser.add_argument('--fast', action='store_true',
                        help='few images and steps, for tests')
    args = parser.parse_args()
    args.out = args.out.resolve()
    args.encoders = [name for name in ENCODERS
                     if name != 'calibrated' or args.calibrated]
    return args


def tool(name: str, *arguments) -> list[str]:
    """The command line of a tool."""
    return [sys.executable, str(ROOT / 'tools' / name), *map(str, arguments)]


def last_epoch(config: str, args: argparse.Namespace) -> int:
    """How many epochs a config trains."""
    return 2 if args.fast else Config.fromfile(
        CONFIGS / config).train_cfg.max_epochs


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
        weights = 'model.backbone.init_cfg.checkpoint=' + repr(
            str(args.out / encoder / 'encoder' / 'encoder.safetensors'))
    options = [weights, f'randomness.seed={args.seed}']
    if args.fast:
        options += FAST_PROBE + (FAST_WARMUP if probe == 'tran1' else [])
    return Job(f'{encoder}-{probe}', tool(
        'train.py', CONFIGS / PROBES[probe], '--work-dir',
        args.out / encoder / probe, '--cfg-options', *options),
        [encoder] if ENCODERS[encoder] else [])


def detection_job(args: argparse.Namespace) -> Job:
    """Keep the detections on the pre-trained encoder."""
    config, folder = PROBES['retinanet'], args.out / 'pretrained/retinanet'
    return Job('detections', tool(
        'test.py', CONFIGS / config,
        folder / f'epoch_{last_epoch(config, args)}.pth', '--work-dir',
        folder / 'test', '--out', folder / 'detections.pkl',
        *(FAST_TEST if args.fast else ())), ['pretrained-retinanet'])


def analysis_job(data: Path, args: argparse.Namespace) -> Job:
    """Draw what pre-training has learned."""
    config, folder = ENCODERS['pretrained'], args.out / 'pretrained/encoder'
    last = last_epoch(config, args)
    epochs = [last] if args.fast else range(3, last + 1, 3)
    few = ['--num-pictures', 2, '--num-statistics', 4] if args.fast else []
    return Job('analysis', tool(
        'analysis/run_all.py', CONFIGS / config,
        *(folder / f'epoch_{epoch}.pth' for epoch in epochs), '--images',
        data / 'classification/val', '--out', args.out / 'analysis', *few),
        ['pretrained'])


def one_pass_job(data: Path, args: argparse.Namespace) -> Job:
    """Predict classes and boxes with the encoder running once."""
    heads = []
    for name, probe in dict(classes='linear', boxes='retinanet').items():
        config = PROBES[probe]
        heads.append(f'--head={name}={CONFIGS / config}:{args.out}/pretrained/'
                     f'{probe}/epoch_{last_epoch(config, args)}.pth')
    return Job('one-pass', [
        sys.executable, str(CONFIGS.parent / 'one_pass.py'), *heads,
        *(str(data / kind / 'val') for kind in ('classification',
                                                'detection')),
        '--out', str(args.out / 'pictures')],
        ['pretrained-linear', 'pretrained-retinanet'])


def all_jobs(data: Path, args: argparse.Namespace) -> list[Job]:
    """All jobs, the pre-trained encoder's first where several could start."""
    encoders = args.encoders[::-1]
    jobs = [encoder_job(encoder, args) for encoder in encoders
            if ENCODERS[encoder]]
    jobs += [probe_job(encoder, probe, args) for probe in PROBES
             for encoder in encoders]
    jobs += [detection_job(args), one_pass_job(data, args)]
    if not args.no_analysis:
        jobs.append(analysis_job(data, args))
    return jobs


def collect(args: argparse.Namespace) -> list[dict]:
    """The metrics of all encoders, a row each, and the gain."""
    rows = []
    for title, probe, metric in ROWS:
        row = {encoder: round(read_metric(args.out / encoder / probe, metric),
                              1) for encoder in args.encoders}
        gain = round(row['pretrained'] - row['random'], 1)
        rows.append(dict(title=title, **row, gain=gain))
    return rows


def write_results(args: argparse.Namespace) -> str:
    """Write results and pictures; return the table."""
    rows = collect(args)
    numbers = dict(seed=args.seed, rows=rows)
    head = ['frozen encoder', *args.encoders, 'gain']
    lines = [[row['title'], *(f'{row[name]:.1f}' for name in args.encoders),
              f'{row["gain"]:+.1f}'] for row in rows]
    pictures = args.out / 'pictures'
    pictures.mkdir(parents=True, exist_ok=True)
    draw_loss_curves({
        'QB-Heat': {'pre-training': args.out / 'pretrained/encoder'},
        **{probe: {name: args.out / name / probe for name in args.encoders}
           for probe in PROBES}}, pictures / 'loss_curves.png')
    draw_detections(args.out / 'pretrained/retinanet/detections.pkl',
                    pictures / 'detections.png')
    report = Report('demo', TITLE, CAPTION,
                    [Table('Frozen encoders', head, lines)], numbers,
                    ['detections.png', 'loss_curves.png'],
                    dict(command=command_line()))
    table = markdown_table([head, *lines])
    for file, text in (
            ('results.md', table),
            ('results.json', json.dumps(numbers, indent=1)),
            ('pictures/demo.json', report.to_json())):
        (args.out / file).write_text(text + '\n', encoding='utf-8')
    return table


def main() -> None:
    """Run the demo."""
    args = parse_args()
    print('Drawing the data unless they are there ...', flush=True)
    data = ensure_demo_data('tiny' if args.fast else 'full')
    print(f'The data are in {data}', flush=True)
    run_jobs(all_jobs(data, args), args.out / 'logs', args.jobs)
    table = write_results(args)
    print(f'\nSeed {args.seed}, all encoders frozen:\n\n{table}\n')
    subprocess.run(tool('analysis/story.py', args.out, '--title',
                        f'QB-Heat on drawn images, seed {args.seed}'),
                   check=True)


if __name__ == '__main__':
    report_user_errors(main)
