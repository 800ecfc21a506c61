# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Minutes, memory and AP of the README's detector on a folder of boxes.

Prepares the boxes, trains on the frozen encoder and tests the best checkpoint
on the test images, or on those for validation if there are none. Minutes are
CPU seconds of two cores, which other load on the machine changes less than
the time that passes.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.errors import UserError

TOOLS = Path(__file__).resolve().parents[1] / 'tools'
CORES = 2


class Cost(NamedTuple):
    """CPU seconds, and the most memory at a time in MiB."""
    seconds: float
    peak: float


def run(tool: str, *arguments: str | Path) -> Cost:
    """Run a tool in a process of its own."""
    process = subprocess.Popen([sys.executable, TOOLS / tool, *arguments])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise UserError(f'{tool} failed')
    unit = 1 if sys.platform == 'darwin' else 1024  # bytes or KiB
    return Cost(usage.ru_utime + usage.ru_stime,
                usage.ru_maxrss * unit / 2**20)


def measure(folder: str, encoder: str, out: Path, options: list[str]) -> str:
    """Run the README's commands; return a line of numbers."""
    config, work = out / 'boxes/boxes.py', out / 'run'
    prepared = run('prepare_boxes.py', folder, '--out', out / 'boxes')
    trained = run('train.py', config, '--work-dir', work, '--cfg-options',
                  f'encoder={encoder}', *options)
    best = max(work.glob('best_*.pth'), key=os.path.getmtime)
    tested = run('test.py', config, best, '--work-dir', out / 'test',
                 '--out-metrics', out / 'metrics.json', '--cfg-options',
                 f'encoder={encoder}')
    metrics = json.loads((out / 'metrics.json').read_text())
    minutes = (prepared.seconds + trained.seconds) / CORES / 60
    return (f'{folder}: {minutes:.1f} minutes of {CORES} cores to train, '
            f'{tested.seconds / CORES / 60:.1f} to test, '
            f'{trained.peak:.0f} MiB, '
            f"AP {100 * metrics['coco/bbox_mAP']:.1f}, "
            f"AP50 {100 * metrics['coco/bbox_mAP_50']:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folders', nargs='+', metavar='FOLDER',
                        help='exports of annotation tools')
    parser.add_argument('--encoder', required=True, metavar='FILE')
    parser.add_argument('--cfg-options', nargs='+', default=[],
                        metavar='KEY=VALUE', help='settings of training')
    args = parser.parse_args()
    for folder in args.folders:
        with tempfile.TemporaryDirectory() as out:
            print(measure(folder, args.encoder, Path(out), args.cfg_options),
                  flush=True)


if __name__ == '__main__':
    report_user_errors(main)
