# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Look at what a detector finds and misses in the validation images.

Writes OUT/index.html: a suggested score, AP by class and size, confused
classes, and ground truth beside predictions, worst images first.
"""
import argparse
from pathlib import Path

import torch
from mmengine.runner import Runner
from mmengine.utils import track_iter_progress

from qbheat_mm import cli
from qbheat_mm.cli.arguments import add_cfg_options, add_device, folder
from qbheat_mm.cli.predictions import SCORE
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.config.reading import read_config
from qbheat_mm.engine.check_classes import require_same
from qbheat_mm.errors import UserError
from qbheat_mm.trained.model import load_model
from qbheat_mm.utils.atomic_write import atomic_write
from qbheat_mm.utils.settings import toolbox


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', help="the detector's config")
    parser.add_argument('checkpoint', help='file, URL or work folder')
    parser.add_argument(
        '--out', required=True, type=folder, help='folder to write to')
    add_cfg_options(parser)
    add_device(parser)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    cfg = read_config(args.config, args.cfg_options)
    checkpoint = cli.find_checkpoint(args.checkpoint, 'checkpoint')
    if toolbox(cfg) != 'mmdet' or not cfg.get('val_dataloader'):
        raise UserError(f"config '{args.config}' has no detector with "
                        'validation images')
    # Loads mmdet
    from qbheat_mm.detection.error_analysis import (
        DetectionErrors,
        render_errors,
    )
    trained = load_model(cfg, checkpoint)
    model = trained.model.to(args.device)
    loader = Runner.build_dataloader(cfg.val_dataloader, seed=0)
    data, found, files = loader.dataset, [], {}
    if trained.classes:
        require_same('val_dataloader.dataset', data, 'checkpoint',
                     trained.classes)
    for batch in track_iter_progress((loader, len(loader))):
        with torch.no_grad():
            samples = model.test_step(batch)
        for sample in samples:
            objects = sample.pred_instances.cpu().numpy()
            files[sample.img_id] = sample.img_path
            found.append(dict(
                img_id=sample.img_id, bboxes=objects.bboxes,
                scores=objects.scores, labels=objects.labels))
    if not any(len(image['scores']) for image in found):
        raise UserError(f"'{checkpoint}' finds nothing in "
                        f'{len(found)} images: train longer')
    errors = DetectionErrors(data.ann_file, found, files,
                             data.metainfo['classes'], SCORE)
    page = Path(args.out, 'index.html')
    page.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(page) as part:
        Path(part).write_text(render_errors(
            errors, f'{len(found)} validation images of {args.config}, '
            f'{checkpoint}.'), 'utf-8')
    print(f'\nsuggested score: {errors.threshold:.2f}\n{page}')


if __name__ == '__main__':
    report_user_errors(main)
