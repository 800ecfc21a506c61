# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The whole story on drawn images: pre-train, probe, detect, look.

Every step is a command of this project that anyone can type; all are printed.
Two run side by side, since small models use two cores better that way.
"""
import argparse
import json
import shlex
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from projects.drawn_world.data import ensure_demo_data
from projects.drawn_world.jobs import Job, JobFailed, JobRunner
from projects.drawn_world.pictures import (
    draw_detections,
    draw_loss_curves,
)
from projects.drawn_world.results import collect, to_markdown, to_table
from qbheat_mm.analysis.report import Report
from qbheat_mm.cli import count, report_user_errors
from qbheat_mm.cli.command_line import quoted

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = Path(__file__).resolve().parent / 'configs'

#: The longest first: they start in this order, which keeps two cores busy.
PROBES = {
    'retinanet': 'retinanet_mf-demo_fpn_frozen.py',
    'tran1': 'mf-demo_tran1.py',
    'linear': 'mf-demo_linear.py'
}
DETECTORS = {'retinanet': 'RetinaNet'}

#: What makes the weights of an encoder; random ones need nothing.
ENCODERS = {
    'random': None,
    'calibrated': 'qbheat_mf-demo_random.py',
    'pretrained': 'qbheat_mf-demo_pretrain.py'
}

CAPTION = (
    'Probes and detectors, trained alike on frozen encoders. random: as '
    'initialised. calibrated (if asked for): random too, but its batch norm '
    'has the statistics of the images. pretrained: by QB-Heat on the images '
    'without labels. AP is that of COCO, in percent, by mmdet. The pictures: '
    'the surest detections on the pre-trained encoder (with a score above '
    '0.3) below what there is, and the training losses.')

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
        '--jobs', type=count, default=2, help='commands side by side')
    parser.add_argument(
        '--calibrated',
        action='store_true',
        help='a third encoder: random, but its batch norm has the statistics '
        'of the images')
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


def encoders_of(args: argparse.Namespace) -> list[str]:
    """The encoders to compare."""
    return [e for e in ENCODERS if e != 'calibrated' or args.calibrated]


def encoder_job(encoder: str, args: argparse.Namespace) -> Job:
    """QB-Heat on the unlabelled images."""
    return Job(
        encoder,
        tool('train.py', CONFIGS / ENCODERS[encoder], '--work-dir',
             args.out / encoder / 'encoder', '--cfg-options',
             f'randomness.seed={args.seed}',
             *(FAST_TRAIN if args.fast else ())))


def checkpoint(folder: Path, config: str, fast: bool) -> Path:
    """The last checkpoint of a run."""
    return folder / f'epoch_{epochs_of(config, fast)}.pth'


def encoder_file(encoder: str, args: argparse.Namespace) -> Path:
    """The checkpoint of an encoder."""
    return checkpoint(args.out / encoder / 'encoder', ENCODERS[encoder],
                      args.fast)


def probing_job(encoder: str, probe: str, args: argparse.Namespace) -> Job:
    """A probe or detector on the frozen encoder, evaluated at its end."""
    weights = 'model.backbone.init_cfg=None'
    if ENCODERS[encoder]:
        weights = ('model.backbone.init_cfg.checkpoint='
                   + quoted(str(encoder_file(encoder, args))))
    options = [weights, f'randomness.seed={args.seed}']
    if args.fast:
        options += FAST_PROBE + FAST_WARMUP.get(probe, [])
    return Job(
        f'{encoder}-{probe}',
        tool('train.py', CONFIGS / PROBES[probe], '--work-dir',
             args.out / encoder / probe, '--cfg-options', *options),
        needs=[encoder] if ENCODERS[encoder] else [])


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
    """The pictures of what was learned."""
    config = ENCODERS['pretrained']
    last = epochs_of(config, args.fast)
    folder = args.out / 'pretrained' / 'encoder'
    checkpoints = [folder / f'epoch_{n}.pth' for n in range(3, last + 1, 3)]
    if args.fast:
        checkpoints = [encoder_file('pretrained', args)]
    few = ['--num-pictures', 2, '--num-statistics', 4] if args.fast else []
    return Job(
        'analysis',
        tool('analysis/run_all.py', CONFIGS / config, *checkpoints,
             '--images', data / 'classification' / 'val', '--out',
             args.out / 'analysis', *few),
        needs=['pretrained'])


def all_jobs(data: Path, args: argparse.Namespace) -> Sequence[Job]:
    """Jobs in the order in which they start where several could."""
    encoders = encoders_of(args)
    jobs = [encoder_job(e, args) for e in reversed(encoders) if ENCODERS[e]]
    for probe in PROBES:
        jobs += [probing_job(e, probe, args) for e in reversed(encoders)]
    jobs += [testing_job(detector, args) for detector in DETECTORS]
    if not args.no_analysis:
        jobs.append(analysis_job(data, args))
    return jobs


def draw_pictures(out: Path, encoders: Sequence[str]) -> None:
    """Loss curves, and detections beside what there is to find."""
    pictures = out / 'pictures'
    pictures.mkdir(parents=True, exist_ok=True)
    curves = {'QB-Heat': {'pre-training': out / 'pretrained' / 'encoder'}}
    for probe in PROBES:
        curves[probe] = {e: out / e / probe for e in encoders}
    draw_loss_curves(curves, pictures / 'loss_curves.png')
    draw_detections(
        {
            title: out / 'pretrained' / detector / 'detections.pkl'
            for detector, title in DETECTORS.items()
        }, pictures / 'detections.png')


def write_results(args: argparse.Namespace) -> str:
    """Write the table for people, for programs and for the page."""
    rows = collect(args.out, encoders_of(args))
    table = to_markdown(to_table(rows))
    (args.out / 'results.md').write_text(table + '\n', encoding='utf-8')
    (args.out / 'results.json').write_text(
        json.dumps(dict(seed=args.seed, rows=rows), indent=1) + '\n',
        encoding='utf-8')
    report = Report(
        analysis='demo',
        title='The frozen encoder, judged',
        caption=CAPTION,
        tables=[to_table(rows)],
        numbers=dict(seed=args.seed, rows=rows),
        pictures=['detections.png', 'loss_curves.png'],
        source=dict(command=shlex.join(sys.orig_argv)))
    (args.out / 'pictures' / 'demo.json').write_text(
        json.dumps(report.as_json(), indent=1) + '\n', encoding='utf-8')
    return table


def main() -> int:
    """Run the demo; the status is 1 if a command fails."""
    args = parse_args()
    args.out = args.out.resolve()
    # mmengine's, once a config read; nobody who runs the demo can act on it.
    warnings.filterwarnings('ignore', 'pkg_resources is deprecated')
    print('Drawing the data, once ...', flush=True)
    data = ensure_demo_data('tiny' if args.fast else 'full')
    print(f'The data are in {data}', flush=True)
    runner = JobRunner(args.out / 'logs', args.jobs)
    try:
        runner.run(all_jobs(data, args))
    except JobFailed as error:
        print(f'error: {error}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130

    draw_pictures(args.out, encoders_of(args))
    table = write_results(args)
    print(f'\nSeed {args.seed}, all encoders frozen.\n\n{table}\n')
    subprocess.run(
        tool('analysis/story.py', args.out, '--title',
             f'QB-Heat on drawn images, seed {args.seed}'),
        check=True)
    return 0


if __name__ == '__main__':
    report_user_errors(lambda: sys.exit(main()))
