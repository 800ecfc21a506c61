# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Minutes, memory and AP of the README's detector on a folder of boxes.

Prepares the boxes, trains on the frozen encoder, and tests the best checkpoint
on the test images, or on those for validation if there are none. --finetune
then trains the encoder as well. Minutes are CPU seconds of two cores, which
other load on the machine changes less than the time that passes.
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


def measure(folder: str, encoder: str, out: Path, options: list[str],
            finetune: bool) -> None:
    """Run the README's commands, and continue with the whole detector.

    Prints a line of numbers for each.

    Args:
        folder (str): The export.
        encoder (str): Of published or own weights.
        out (Path): Folder for all that is written.
        options (list[str]): Further ``--cfg-options``.
        finetune (bool): Whether to train the encoder as well afterwards.
    """
    config = out / 'boxes/boxes.py'
    prepared = run('prepare_boxes.py', folder, '--out', out / 'boxes')
    options = [f'encoder={encoder}', *options]
    trained = train(config, out / 'frozen', options)
    minutes = (prepared.seconds + trained.seconds) / CORES / 60
    print(f'{folder}: {minutes:.1f} minutes of {CORES} cores to train, '
          f"{trained.peak:.0f} MiB, {test(config, out / 'frozen', options)}",
          flush=True)
    if finetune:
        config = out / 'boxes/boxes_ft.py'
        trained = train(config, out / 'whole', [
            *options, f"load_from={out / 'frozen'}"])
        print(f'{folder}: {trained.seconds / CORES / 60:.1f} minutes more to '
              f'fine-tune the whole detector, {trained.peak:.0f} MiB, '
              f"{test(config, out / 'whole', options)}", flush=True)


def train(config: Path, work: Path, options: list[str]) -> Cost:
    """Train a detector."""
    return run('train.py', config, '--work-dir', work, '--cfg-options',
               *options)


def test(config: Path, work: Path, options: list[str]) -> str:
    """Test the best checkpoint of a run; return its minutes and AP."""
    file = work / 'metrics.json'
    tested = run('test.py', config, work, '--work-dir', work / 'test',
                 '--out-metrics', file, '--cfg-options', *options)
    metrics = json.loads(file.read_text())
    return (f'AP {100 * metrics["coco/bbox_mAP"]:.1f}, '
            f'AP50 {100 * metrics["coco/bbox_mAP_50"]:.1f} '
            f'({tested.seconds / CORES / 60:.1f} minutes to test)')


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folders', nargs='+', metavar='FOLDER',
                        help='exports of annotation tools')
    parser.add_argument('--encoder', required=True, metavar='FILE')
    parser.add_argument('--finetune', action='store_true',
                        help='then train the whole detector')
    parser.add_argument('--cfg-options', nargs='+', default=[],
                        metavar='KEY=VALUE', help='settings of training')
    args = parser.parse_args()
    for folder in args.folders:
        with tempfile.TemporaryDirectory() as out:
            measure(folder, args.encoder, Path(out), args.cfg_options,
                    args.finetune)


if __name__ == '__main__':
    report_user_errors(main)
