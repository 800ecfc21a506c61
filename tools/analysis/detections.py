# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a detector confuses and misses, and its AP by size and class.

Reads what `tools/test.py CONFIG CHECKPOINT --out FILE.pkl` has written.
"""
import argparse
import math
from collections import defaultdict

import mmengine
import numpy as np
from mmengine.config import Config
from mmengine.evaluator import BaseMetric, Evaluator
from mmengine.registry import DATASETS, init_default_scope

from qbheat_mm.analysis.detections import (
    Boxes,
    Match,
    confusions,
    match_boxes,
    recall_by_size,
)
from qbheat_mm.analysis.figures.detections import (
    draw_confusions,
    draw_errors,
    draw_sizes,
)
from qbheat_mm.analysis.report import Report, Table
from qbheat_mm.cli import (
    count,
    folder,
    read_config,
    report_user_errors,
    require_file,
)
from qbheat_mm.cli.analysis_tool import print_tables, write
from qbheat_mm.cli.command_line import add_cfg_options
from qbheat_mm.datasets.image_lists import load_images
from qbheat_mm.errors import UserError

CAPTION = (
    'Each found box of at least the score takes one object that it overlaps '
    'by at least the IoU, of its own class where there is one. Confusions: '
    'rows are what there is, columns what it was found as; the last column '
    'was missed, the last row is where nothing is; what lies on a crowd '
    '(iscrowd) of its class and on no object is in neither. Sizes are '
    'COCO\'s, by the area of the annotation, which is that of the mask '
    'where it has one: small below 32 x 32 pixels, large from 96 x 96 on; '
    'AP is COCO\'s over all scores, recall is at the score. Pictures, those '
    'with most errors first: dashed what is there and was not found as that, '
    'solid what was found and is wrong.')


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='configuration of the detector')
    parser.add_argument('found', help='predictions, FILE.pkl')
    parser.add_argument(
        '--out', required=True, type=folder, help='folder for results')
    parser.add_argument(
        '--score', type=float, default=0.3, help='of boxes that count as '
        'found; defaults to 0.3')
    parser.add_argument(
        '--iou', type=float, default=0.5, help='overlap of a box and its '
        'object; defaults to 0.5')
    parser.add_argument(
        '--num-pictures', type=count, default=12, metavar='N',
        help='images that are drawn; defaults to 12')
    add_cfg_options(parser)
    args = parser.parse_args()
    if not 0 <= args.score <= 1:
        raise UserError(f'--score {args.score} must be from 0 to 1')
    if not 0 < args.iou <= 1:
        raise UserError(f'--iou {args.iou} must be above 0 and up to 1')
    return args


def read_predictions(file: str) -> dict[int, dict]:
    """Predictions by the number of the image.

    Raises:
        UserError: If the file holds others than a detector's.
    """
    require_file(file, 'the predictions')
    try:
        samples = mmengine.load(file)
        found = {sample['img_id']: sample for sample in samples}
        if not all('pred_instances' in sample for sample in samples):
            raise KeyError('pred_instances')
    # Anything can be in a file of another kind.
    except Exception as error:
        raise UserError(
            f"'{file}' holds no predictions of a detector "
            f'({type(error).__name__}: {error}): give the file of '
            'tools/test.py CONFIG CHECKPOINT --out FILE.pkl') from error
    return found


def match_all(dataset, found: dict[int, dict], areas: dict,
              args: argparse.Namespace) -> dict[str, Match]:
    """Objects and found boxes of each image, by its file.

    Args:
        dataset (Dataset): Of the test.
        found (dict): Of :func:`read_predictions`.
        areas (dict): Of :func:`areas_of`.
        args (Namespace): Of the command line.

    Raises:
        UserError: If the predictions are not of these images.
    """
    matches = {}
    for i in range(len(dataset)):
        info = dataset.get_data_info(i)
        if info['img_id'] not in found:
            raise UserError(
                f"'{args.found}' says nothing about '{info['img_path']}': "
                'the predictions are of other images than the test set of '
                f"'{args.config}'; run tools/test.py anew")
        objects, crowds = ([
            item for item in info['instances']
            if bool(item.get('ignore_flag')) == crowd
        ] for crowd in (False, True))
        boxes = found[info['img_id']]['pred_instances']
        matches[info['img_path']] = match_boxes(
            as_boxes(objects, areas[info['img_id']]),
            Boxes(boxes['bboxes'].numpy(), boxes['labels'].numpy(),
                  boxes['scores'].numpy()).above(args.score), args.iou,
            as_boxes(crowds))
    return matches


def as_boxes(instances: list[dict], areas: dict | None = None) -> Boxes:
    """Boxes of mmdet's instances."""
    boxes = Boxes([item['bbox'] for item in instances],
                  [item['bbox_label'] for item in instances])
    for i, item in enumerate(instances):
        same = (areas or {}).get((item['bbox_label'], *item['bbox']))
        if same:
            boxes.areas[i] = same.pop(0)
    return boxes


def areas_of(metric: BaseMetric) -> dict[int, dict[tuple, list[float]]]:
    """Areas that COCO sorts objects by: by image, then label and corners.

    mmdet's instances have none; several may share their label and corners.
    """
    areas = defaultdict(lambda: defaultdict(list))
    label = {number: i for i, number in enumerate(metric.cat_ids)}
    for item in metric._coco_api.anns.values():
        if item['category_id'] in label and not item.get('iscrowd'):
            x, y, width, height = item['bbox']
            areas[item['image_id']][
                label[item['category_id']], x, y, x + width,
                y + height].append(item['area'])
    return areas


def evaluate(cfg: Config, dataset, found: dict
             ) -> tuple[dict[str, float], BaseMetric]:
    """COCO's figures, of all, by size, and by class where it tells."""
    settings = cfg.test_evaluator
    settings = settings[0] if isinstance(settings, list) else settings
    evaluator = Evaluator(dict(settings, classwise=True, metric='bbox',
                               outfile_prefix=None))
    evaluator.dataset_meta = dataset.metainfo
    metrics = evaluator.offline_evaluate(list(found.values()))
    if not metrics:  # as mmdet says that nothing was found at all
        print('nothing was found in any image: no AP')
    metric, = evaluator.metrics
    prefix = f'{metric.prefix}/'  # names of classes may have slashes, too
    return {name.removeprefix(prefix): value if value != -1 else float('nan')
            for name, value in metrics.items()}, metric


def tables_of(table: np.ndarray, sizes: dict, metrics: dict,
              names: list[str]) -> list[Table]:
    """By size and by class, and the most frequent confusions."""
    by_size = Table('By size', ['size', 'objects', 'recall', 'AP'])
    for size, (hit, total) in sizes.items():
        by_size.rows.append([size, total, hit / total if total else '-',
                             metrics.get(f'bbox_mAP_{size[0]}', math.nan)])
    by_class = Table('By class', [
        'class', 'objects', 'found', 'as others', 'missed', 'on nothing',
        'AP'])
    for i, name in enumerate(names):
        total, hit, missed = table[i].sum(), table[i, i], table[i, -1]
        by_class.rows.append([
            name, int(total), int(hit), int(total - hit - missed),
            int(missed), int(table[-1, i]),
            metrics.get(f'{name}_precision', float('nan'))])
    wrong = table[:-1, :-1] * (1 - np.eye(len(names), dtype=int))
    pairs = Table('Most frequent confusions', ['what it is', 'found as',
                                               'times'])
    for place in np.argsort(-wrong, axis=None, kind='stable')[:10]:
        row, column = np.unravel_index(place, wrong.shape)
        if wrong[row, column]:
            pairs.rows.append([names[row], names[column],
                               int(wrong[row, column])])
    return [part for part in (by_size, by_class, pairs) if part.rows]


def main() -> None:
    """Compare what was found with what there is."""
    args = parse_args()
    found = read_predictions(args.found)
    cfg = read_config(args.config, args.cfg_options)
    init_default_scope(cfg.get('default_scope', 'mmdet'))
    dataset = DATASETS.build(cfg.test_dataloader.dataset)
    metrics, metric = evaluate(cfg, dataset, found)
    matches = match_all(dataset, found, areas_of(metric), args)
    names = list(dataset.metainfo['classes'])
    table = confusions(matches.values(), len(names))
    sizes = recall_by_size(list(matches.values()))
    worst = sorted((file for file in matches if matches[file].num_errors),
                   key=lambda file: -matches[file].num_errors)
    files, pictures = load_images(worst[:args.num_pictures], None) if (
        worst) else ([], [])
    report = Report(
        'detections', 'What the detector confuses and misses', CAPTION,
        tables=tables_of(table, sizes, metrics, names),
        numbers=dict(
            score=args.score, iou=args.iou, classes=names,
            confusions=table.tolist(), sizes=sizes, metrics=metrics,
            errors={file: matches[file].num_errors for file in worst}),
        source=dict(config=args.config, predictions=args.found))
    figures = dict(
        confusions=draw_confusions(table, names),
        sizes=draw_sizes(sizes, {
            size: metrics.get(f'bbox_mAP_{size[0]}', math.nan)
            for size in sizes}))
    if pictures:
        figures['errors'] = draw_errors(
            [picture[..., ::-1] for picture in pictures],
            [matches[file] for file in files], names)
    write(args.out, report, figures)
    print_tables(report)


if __name__ == '__main__':
    report_user_errors(main)
