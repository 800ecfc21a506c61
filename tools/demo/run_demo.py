# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The whole story on drawn images: pre-train, probe, detect, look.

Every step is a command of this project that anyone can type; all are printed.
Two run side by side, since small models use two cores better that way.
"""
import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from qbheat_mm.demo.data import ensure_demo_data
from qbheat_mm.demo.jobs import Job, JobFailed, JobRunner
from qbheat_mm.demo.pictures import draw_detections, draw_loss_curves
from qbheat_mm.demo.results import collect, to_markdown

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / 'configs' / 'demo'

PRETRAINING = 'qbheat_mf-demo_pretrain.py'
PROBES = {
    'tran1': 'mf-demo_tran1.py',
    'linear': 'mf-demo_linear.py',
    'mf-dec': 'mf-dec_mf-demo_frozen.py',
    'retinanet': 'retinanet_mf-demo_fpn_frozen.py'
}
DETECTORS = ('mf-dec', 'retinanet')

#: A handful of images and steps, to see that everything runs.
FAST_TRAIN = [
    'train_cfg.max_epochs=2', 'train_dataloader.dataset.sizes=tiny',
    'train_dataloader.batch_size=8'
]
FAST_PROBE = [*FAST_TRAIN, 'train_cfg.val_interval=2',
              'val_dataloader.dataset.sizes=tiny']
FAST_TEST = ['test_dataloader.dataset.sizes=tiny']
FAST_WARMUP = {
    'tran1': ['param_scheduler.0.end=1', 'param_scheduler.1.begin=1']
}


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seed', type=int, default=0, help='of all trainings')
    parser.add_argument('--out', type=Path, default=Path('work_dirs/demo'))
    parser.add_argument(
        '--jobs', type=int, default=2, help='commands side by side')
    parser.add_argument(
        '--no-analysis',
        action='store_true',
        help='leave out the pictures of what was learned')
    parser.add_argument(
        '--fast', action='store_true', help='few images and steps, for tests')
    return parser.parse_args()


def tool(name: str, *arguments) -> list[str]:
    """The command line of one of the project's tools."""
    return [sys.executable, str(ROOT / 'tools' / name), *map(str, arguments)]


def epochs_of(config: str, fast: bool) -> int:
    """How many epochs a configuration trains, as its checkpoint is named."""
    from mmengine.config import Config
    return 2 if fast else Config.fromfile(CONFIGS /
                                          config).train_cfg.max_epochs


def pretraining_job(args: argparse.Namespace) -> Job:
    """QB-Heat on the unlabelled images."""
    return Job(
        'pretrain',
        tool('train.py', CONFIGS / PRETRAINING, '--work-dir',
             args.out / 'pretrain', '--cfg-options',
             f'randomness.seed={args.seed}',
             *(FAST_TRAIN if args.fast else ())))


def checkpoint(folder: Path, config: str, fast: bool) -> Path:
    return folder / f'epoch_{epochs_of(config, fast)}.pth'


def probing_job(encoder: str, probe: str, args: argparse.Namespace) -> Job:
    """A probe or detector on the frozen encoder, evaluated at its end."""
    if encoder == 'random':
        weights = 'model.backbone.init_cfg=None'
    else:
        file = checkpoint(args.out / 'pretrain', PRETRAINING, args.fast)
        weights = f'model.backbone.init_cfg.checkpoint={file}'
    options = [weights, f'randomness.seed={args.seed}']
    if args.fast:
        options += FAST_PROBE + FAST_WARMUP.get(probe, [])
    return Job(
        f'{encoder}-{probe}',
        tool('train.py', CONFIGS / PROBES[probe], '--work-dir',
             args.out / encoder / probe, '--cfg-options', *options),
        needs=[] if encoder == 'random' else ['pretrain'])


def testing_job(detector: str, args: argparse.Namespace) -> Job:
    """mmdet's COCO evaluation of a trained detector, detections kept."""
    folder = args.out / 'pretrained' / detector
    return Job(
        f'test-{detector}',
        tool('test.py', CONFIGS / PROBES[detector],
             checkpoint(folder, PROBES[detector], args.fast), '--work-dir',
             folder / 'test', '--out', folder / 'detections.pkl',
             *(['--cfg-options', *FAST_TEST] if args.fast else ())),
        needs=[f'pretrained-{detector}'])


def analysis_job(data: Path, args: argparse.Namespace) -> Job:
    """The pictures of what was learned, and the page that shows them."""
    few = ['--num-pictures', 2, '--num-statistics', 4] if args.fast else []
    return Job(
        'analysis',
        tool('analysis/run_all.py', CONFIGS / PRETRAINING,
             checkpoint(args.out / 'pretrain', PRETRAINING, args.fast),
             '--images', data / 'classification' / 'val', '--out',
             args.out / 'analysis', *few),
        needs=['pretrain'])


def all_jobs(data: Path, args: argparse.Namespace) -> Sequence[Job]:
    """Jobs in the order in which they start where several could."""
    jobs = [pretraining_job(args)]
    for encoder in ('random', 'pretrained'):
        jobs += [probing_job(encoder, probe, args) for probe in PROBES]
    jobs += [testing_job(detector, args) for detector in DETECTORS]
    if not args.no_analysis:
        jobs.append(analysis_job(data, args))
    return jobs


def draw_pictures(out: Path) -> None:
    """Loss curves, and detections beside what there is to find."""
    pictures = out / 'pictures'
    pictures.mkdir(parents=True, exist_ok=True)
    curves = {'QB-Heat': {'pre-training': out / 'pretrain'}}
    for probe in PROBES:
        curves[probe] = {
            encoder: out / encoder / probe
            for encoder in ('random', 'pretrained')
        }
    draw_loss_curves(curves, pictures / 'loss_curves.png')
    draw_detections(
        {
            detector: out / 'pretrained' / detector / 'detections.pkl'
            for detector in DETECTORS
        }, pictures / 'detections.png')


def main() -> int:
    """Run the demo; the status is 1 if a command fails."""
    args = parse_args()
    args.out = args.out.resolve()
    print('Drawing the data, once ...', flush=True)
    data = ensure_demo_data('tiny' if args.fast else 'full')
    print(f'The data are in {data}', flush=True)
    runner = JobRunner(args.out / 'logs', args.jobs)
    try:
        runner.run(all_jobs(data, args))
    except JobFailed as error:
        print(f'error: {error}', file=sys.stderr)
        return 1

    draw_pictures(args.out)
    rows = collect(args.out)
    table = to_markdown(rows)
    (args.out / 'results.md').write_text(table + '\n', encoding='utf-8')
    (args.out / 'results.json').write_text(
        json.dumps(dict(seed=args.seed, rows=rows), indent=1) + '\n',
        encoding='utf-8')
    print(f'\nSeed {args.seed}, all encoders frozen.\n\n{table}\n')
    print(f'Pictures: {args.out / "pictures"}')
    if not args.no_analysis:
        print('What was learned, on one page: '
              f'{args.out / "analysis" / "index.html"}')
    return 0


if __name__ == '__main__':
    sys.exit(main())
