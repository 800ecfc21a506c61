# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Count what a configuration's data sets hold, and say what is wrong."""
import argparse
import os
from collections.abc import Callable, Iterator, Sequence

from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmengine.utils import ProgressBar

from qbheat_mm.cli import read_config, report_user_errors
from qbheat_mm.cli.coco_report import (
    DatasetReport,
    coco_report,
    is_coco,
)
from qbheat_mm.cli.command_line import add_cfg_options
from qbheat_mm.cli.data_check import check_data, datasets
from qbheat_mm.cli.folder_report import folder_report
from qbheat_mm.errors import UserError
from qbheat_mm.processes import map_in_processes
from qbheat_mm.utils.settings import toolbox

PARTS = ('train', 'val', 'test')
#: Pictures from which on it is faster to begin other processes.
WORTH_PROCESSES = 1000
PRELOAD = ('qbheat_mm.cli.coco_report',
           'qbheat_mm.cli.folder_report')


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='configuration file')
    parser.add_argument(
        '--deep',
        action='store_true',
        help='decode every image, not the headers of some')
    add_cfg_options(parser)
    return parser.parse_args()


def decode_all(function: Callable, rows: Sequence[int]) -> Iterator:
    """``map`` in processes, with a bar of progress.

    Not in threads: one picture at a time is listened to for what its decoder
    prints.
    """
    processes = os.cpu_count() or 1 if len(rows) >= WORTH_PROCESSES else 1
    found = map_in_processes(function, rows, processes, PRELOAD)
    bar = ProgressBar(len(rows))
    for each in found:
        yield each
        bar.update()
    print()


def check_part(cfg: Config, part: str,
               deep: Callable | None) -> tuple[list[DatasetReport], list]:
    """Report the data sets of one part.

    Returns:
        tuple[list[DatasetReport], list[str]]: What was found, and in lines
        what stops.
    """
    found, errors = [], []
    try:
        check_data(cfg, [part])
    except UserError as error:
        return [], [str(error)]
    for setting, dataset in datasets(cfg, part):
        if dataset.get('dataset') or dataset.get('datasets'):
            continue  # a wrapper; what is inside comes next
        check = coco_report if is_coco(dataset) else folder_report
        try:
            result = check(dataset, deep)
        except UserError as error:
            errors.append(str(error))
            continue
        found.append(result)
        show(part, setting, result)
        try:
            result.report.require()
        except UserError as error:
            errors.append(str(error))
        if setting == 'train_dataloader.dataset' and (
                toolbox(cfg) != 'mmdet' and len(result.files) == 1):
            errors.append('train_dataloader.dataset has 1 image, training '
                          'needs at least 2 images')
    return found, errors


def show(part: str, setting: str, result: DatasetReport) -> None:
    """Print what a data set holds and what is wrong with it."""
    report = result.report
    print(f'{part}: {report.name} ({setting})')
    if report.summary:
        print(f'  {report.summary}')
    for name, number in report.per_class.items():
        print(f'    {name}: {number}')
    for line in report.warnings():
        print(f'  warning: {line}')
    for finding in report.of('stops'):
        print(f'  stops: {finding}')


def compare(found: dict[str, list[DatasetReport]]) -> list[str]:
    """Lines about what training and validation share and do not."""
    lines = []
    train = found.get('train', [])
    trained = {os.path.realpath(file) for each in train
               for file in each.files}
    classes = next((each.classes for each in train if each.classes), None)
    for part in ('val', 'test'):
        for each in found.get(part, []):
            both = [file for file in each.files
                    if os.path.realpath(file) in trained]
            if both:
                lines.append(f'{len(both)} of {len(each.files)} images of '
                             f'{part} are trained on, too: as {both[0]!r}')
            if each.classes and classes and each.classes != classes:
                lines.append(f'the classes of {part}, {each.classes}, are '
                             f'not those of train, {classes}')
    return lines


def main() -> None:
    """Check."""
    args = parse_args()
    cfg = read_config(args.config, args.cfg_options)
    init_default_scope(cfg.get('default_scope', 'mmpretrain'))
    deep = decode_all if args.deep else None
    found, errors = {}, []
    for part in PARTS:
        loader = cfg.get(f'{part}_dataloader')
        if loader is None:
            continue
        if part == 'test' and loader == cfg.get('val_dataloader'):
            print('test: as val')
            continue
        found[part], wrong = check_part(cfg, part, deep)
        errors += wrong
    if not found:
        raise UserError(f"'{args.config}' names no data set: it has neither "
                        'train_dataloader nor val_dataloader nor '
                        'test_dataloader')
    for line in compare(found):
        print(f'warning: {line}')
    if errors:
        raise UserError(errors[0])
    print('nothing stops')


if __name__ == '__main__':
    report_user_errors(main)
