# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Prepare labeled images for training a classifier.

SOURCE is a folder of class folders, perhaps below train, val and test; a CSV
file with a column of image names and one of classes; or a list of lines PATH
LABEL. Without a split, images are split by class, near-duplicates and videos
(by name) together. Writes OUT/{train,val}/CLASS/..., links to the images, and
OUT/classes.py.
"""
import argparse
import os.path as osp
from pathlib import Path

from qbheat_mm.annotations import prepare_classes
from qbheat_mm.cli.arguments import folder, share
from qbheat_mm.cli.reporting import report_user_errors


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('source', help='folder or list')
    parser.add_argument(
        '--out', required=True, type=folder, help='folder to write to')
    parser.add_argument(
        '--images', metavar='DIR', help='folder of the images of a list, if '
        'it is not in its folder')
    parser.add_argument(
        '--val', type=share, default=0.2, help='share of images for '
        'validation, if there is no split; defaults to 0.2')
    parser.add_argument(
        '--seed', type=int, default=0, help='seed of this split')
    parser.add_argument(
        '--copy', action='store_true', help='copy the images')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    report = prepare_classes(**vars(args))
    train = osp.relpath(Path(__file__).with_name('train.py'))
    print(f'{report}\n\nwrote {report.config}; next:\npython {train} '
          f'{report.config} --cfg-options encoder=ENCODER')


if __name__ == '__main__':
    report_user_errors(main)
