# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Prepare an annotation tool's export for training a detector.

Reads COCO (Roboflow, CVAT, VGG Image Annotator, Label Studio, FiftyOne), YOLO,
Pascal VOC and labelme. Writes COCO files, configs and a page, report.html.
"""
import argparse
import os.path as osp
from pathlib import Path

from qbheat_mm.annotations import DETECTORS, prepare_boxes
from qbheat_mm.cli.arguments import count, folder, share
from qbheat_mm.cli.reporting import report_user_errors


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', help='the export, or its only file to read')
    parser.add_argument(
        '--out', required=True, type=folder, help='folder to write to')
    parser.add_argument(
        '--detector', choices=DETECTORS, default='gfl',
        help="defaults to 'gfl'; 'mask-rcnn' needs polygons or masks, "
        "'mf-dec' many images")
    parser.add_argument(
        '--classes', nargs='+', metavar='NAME',
        help='use only these classes, in this order')
    parser.add_argument(
        '--drop-class', nargs='+', default=[], metavar='NAME',
        dest='drop_classes', help='skip the boxes of these classes')
    parser.add_argument(
        '--images', metavar='DIR', help='folder of the images, if it is not '
        'part of the export')
    parser.add_argument(
        '--keep-crowds', action=argparse.BooleanOptionalAction,
        help='whether crowds (iscrowd=1), which training ignores, stay '
        'crowds; by default, unless the tool marks all masks as crowds')
    parser.add_argument(
        '--boxes-on', choices=('upright', 'stored'), help='whether boxes are '
        'on images as viewers show them, or before EXIF rotates them; by '
        'default, inferred from the tool or the sizes in the export')
    parser.add_argument(
        '--val', type=share, default=0.2, help='share of images for '
        'validation, if the export has none; defaults to 0.2')
    parser.add_argument(
        '--seed', type=int, default=0, help='seed of this split')
    parser.add_argument(
        '--size', type=count, metavar='PIXELS', help='longer side of images '
        'in training; follows from the images and boxes by default')
    parser.add_argument(
        '--copy', action='store_true',
        help='copy the images; by default, they stay where they are')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    report = prepare_boxes(**vars(args))
    train = osp.relpath(Path(__file__).with_name('train.py'))
    print(f'{report}\n\nwrote {report.config}; next:\npython {train} '
          f'{report.config} --cfg-options encoder=ENCODER')


if __name__ == '__main__':
    report_user_errors(main)
