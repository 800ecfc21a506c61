# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a detector confuses and misses, and its AP by size and class.

Reads what `tools/test.py CONFIG CHECKPOINT --out FILE.pkl` has written.
"""
import argparse
import itertools
import math

import mmengine
import numpy as np
import torch
from mmengine.evaluator import Evaluator
from mmengine.registry import DATASETS, init_default_scope
from mmengine.structures import InstanceData
from pycocotools.coco import COCO

import qbheat_mm.detection  # noqa: F401
from qbheat_mm.analysis.detections import (
    Match,
    confusions,
    draw_confusions,
    draw_errors,
    match_boxes,
    recall_by_size,
)
from qbheat_mm.analysis.report import Report, Table
from qbheat_mm.cli import count, folder, read_config, report_user_errors
from qbheat_mm.cli.command_line import add_cfg_options
from qbheat_mm.datasets import load_images
from qbheat_mm.errors import UserError

CAPTION = (
    'A box of at least the score takes one object that it overlaps by at '
    'least the IoU, if possible of its own class. Confusions: rows are '
    'objects, columns what they were found as; the last column was missed, '
    'the last row is where nothing is. Boxes on a crowd (iscrowd) of their '
    "class and on no object do not count. Sizes are COCO's, by the area of "
    "the annotation; AP is COCO's over all scores, recall is at the score. "
    'Pictures: dashed are objects that were missed or confused, solid are '
    'wrong boxes.')


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='config of the detector')
    parser.add_argument('found', help='predictions, FILE.pkl')
    parser.add_argument(
        '--out', required=True, type=folder, help='folder for results')
    parser.add_argument(
        '--score', type=float, default=0.3,
        help='lowest score of a box that counts; defaults to 0.3')
    parser.add_argument(
        '--iou', type=float, default=0.5,
        help='overlap of a box and its object; defaults to 0.5')
    parser.add_argument(
        '--num-pictures', type=count, default=12, metavar='N',
        help='images that are drawn; defaults to 12')
    add_cfg_options(parser)
    args = parser.parse_args()
    if not 0 <= args.score <= 1 or not 0 < args.iou <= 1:
        parser.error(f'--score {args.score} and --iou {args.iou} must be '
                     'from 0 to 1')
    return args


def read_predictions(file: str) -> dict[int, dict]:
    """Read predictions by the id of the image.

    Raises:
        UserError: If the file holds something else.
    """
    try:
        return {sample['img_id']: sample for sample in mmengine.load(file)}
    except Exception as error:  # a file of another kind may hold anything
        raise UserError(
            f"'{file}' holds no predictions ({error}): give the file of "
            'tools/test.py CONFIG CHECKPOINT --out FILE.pkl') from error


def match_all(dataset, coco: COCO, found: dict[int, dict],
              args: argparse.Namespace) -> dict[str, Match]:
    """Match objects and found boxes of each image, by its file.

    Raises:
        UserError: If the predictions are of other images.
    """
    matches = {}
    for i in range(len(dataset)):
        info = dataset.get_data_info(i)
        if info['img_id'] not in found:
            raise UserError(
                f"'{args.found}' lacks '{info['img_path']}' of the test set "
                f"of '{args.config}': run tools/test.py again")
        objects, crowded = to_instances(coco.imgToAnns[info['img_id']],
                                        dataset.cat2label)
        boxes = InstanceData(**found[info['img_id']]['pred_instances'])
        boxes.bboxes = boxes.bboxes.double()
        boxes = boxes[boxes.scores.argsort(descending=True, stable=True)]
        matches[info['img_path']] = match_boxes(
            objects[~crowded], boxes[boxes.scores >= args.score],
            objects[crowded], args.iou)
    return matches


def to_instances(annotations: list[dict], labels: dict[int, int]
                 ) -> tuple[InstanceData, torch.Tensor]:
    """Convert COCO's annotations; also return which are crowds, bool."""
    items = [item for item in annotations if item['category_id'] in labels
             and min(item['bbox'][2:]) >= 1]  # as mmdet
    boxes = torch.tensor([item['bbox'] for item in items],
                         dtype=torch.float64).view(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    return InstanceData(
        bboxes=boxes,
        labels=torch.tensor([labels[item['category_id']]
                             for item in items]).long(),
        areas=torch.tensor([item['area'] for item in items])
    ), torch.tensor([item.get('iscrowd', 0) for item in items]).bool()


def evaluate(settings: dict, dataset, found: dict) -> dict[str, float]:
    """Compute COCO's figures: of all, by size and by class."""
    settings = dict(settings, classwise=True, metric='bbox',
                    outfile_prefix=None)
    if settings['type'] in ('CocoMetric', 'mmdet.CocoMetric'):
        # mmdet's confuses classes whose ids do not ascend.
        settings['type'] = 'MatchedCocoMetric'
    evaluator = Evaluator(settings)
    evaluator.dataset_meta = dataset.metainfo
    metrics = evaluator.offline_evaluate(list(found.values()))
    prefix = f'{evaluator.metrics[0].prefix}/'
    return {name.removeprefix(prefix): math.nan if value == -1 else value
            for name, value in metrics.items()}


def make_tables(table: np.ndarray, sizes: dict, metrics: dict,
                names: list[str]) -> list[Table]:
    """By size and by class, and the most frequent confusions."""
    by_size = Table('By size', ['size', 'objects', 'recall', 'AP'], [
        [size, total, hit / total if total else '-',
         metrics.get(f'bbox_mAP_{size[0]}', math.nan)]
        for size, (hit, total) in sizes.items()])
    by_class = Table('By class', ['class', 'objects', 'found', 'as others',
                                  'missed', 'on nothing', 'AP'])
    counts = table.tolist()
    for i, name in enumerate(names):
        total, hit, missed = sum(counts[i]), counts[i][i], counts[i][-1]
        by_class.rows.append([
            name, total, hit, total - hit - missed, missed, counts[-1][i],
            metrics.get(f'{name}_precision', math.nan)])
    pairs = [[names[i], names[j], counts[i][j]]
             for i, j in itertools.permutations(range(len(names)), 2)
             if counts[i][j]]
    pairs.sort(key=lambda pair: -pair[2])
    confused = Table('Most frequent confusions',
                     ['object', 'found as', 'times'], pairs[:10])
    return [part for part in (by_size, by_class, confused) if part.rows]


def main() -> None:
    args = parse_args()
    found = read_predictions(args.found)
    cfg = read_config(args.config, args.cfg_options)
    init_default_scope(cfg.get('default_scope', 'mmdet'))
    dataset = DATASETS.build(cfg.test_dataloader.dataset)
    evaluator = cfg.test_evaluator
    evaluator = evaluator[0] if isinstance(evaluator, list) else evaluator
    metrics = evaluate(evaluator, dataset, found)
    matches = match_all(dataset, COCO(evaluator.ann_file), found, args)
    names = list(dataset.metainfo['classes'])
    table = confusions(matches.values(), len(names))
    sizes = recall_by_size(list(matches.values()))
    worst = sorted((file for file in matches if matches[file].num_errors),
                   key=lambda file: -matches[file].num_errors)
    report = Report(
        'detections', 'What the detector confuses and misses', CAPTION,
        make_tables(table, sizes, metrics, names),
        numbers=dict(
            score=args.score, iou=args.iou, classes=names,
            confusions=table, sizes=sizes, metrics=metrics,
            errors={file: matches[file].num_errors for file in worst}))
    figures = dict(confusions=draw_confusions(table, names))
    if worst:
        files, pictures = load_images(worst[:args.num_pictures], None)
        figures['errors'] = draw_errors(
            [picture[..., ::-1] for picture in pictures],
            [matches[file] for file in files], names)
    report.save(args.out, figures)


if __name__ == '__main__':
    report_user_errors(main)
