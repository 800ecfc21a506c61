# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Draw as many images as one likes, where data of one's own would lie.

OUT/images holds images without labels, OUT/own/train and OUT/own/val folders
of classes, OUT/boxes images with boxes; the configuration my_boxes.py, written
here, reads these. projects/drawn_world/study/own_data.py compares encoders on them.
"""
import argparse
import os
from pathlib import Path

from projects.drawn_world import CLASSES, TextureBank
from projects.drawn_world.data import (
    DemoSizes,
    draw_classification,
    draw_detection,
)
from projects.drawn_world.scenes import check_size
from qbheat_mm.cli import count, report_user_errors
from qbheat_mm.errors import UserError

ROOT = Path(__file__).resolve().parents[3]
RETINANET = 'configs/qbheat/coco/retinanet_mf-285m_own-data.py'
CONFIG = Path('my_boxes.py')
CONTENT = """_base_ = {base!r}

classes = {classes}
train_dataloader = dict(dataset=dict(
    data_root={root!r}, ann_file='annotations/instances_train.json',
    data_prefix=dict(img='train/'), metainfo=dict(classes=classes)))
val_dataloader = dict(dataset=dict(
    data_root={root!r}, ann_file='annotations/instances_val.json',
    data_prefix=dict(img='val/'), metainfo=dict(classes=classes)))
test_dataloader = val_dataloader
val_evaluator = dict(ann_file={root!r} + 'annotations/instances_val.json')
test_evaluator = val_evaluator
model = dict(bbox_head=dict(num_classes=len(classes)))
"""


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', type=Path, default=Path('data'))
    parser.add_argument('--size', type=count, default=192,
                        help='pixels of a side')
    parser.add_argument('--images', type=count, default=200000,
                        help='without labels')
    parser.add_argument('--labelled', type=count, default=20000,
                        help='in folders of classes, for training')
    parser.add_argument('--boxes', type=count, default=20000,
                        help='with boxes, for training')
    parser.add_argument('--val', type=count, default=2000,
                        help='of either kind, to be measured on')
    return parser.parse_args()


def main() -> None:
    """Draw."""
    args = parse_args()
    check_size(args.size)
    images, own, boxes = (args.out / name for name in ('images', 'own',
                                                       'boxes'))
    for path in (images, own, boxes, CONFIG):
        if path.exists():
            raise UserError(f"'{path}' is there already: give another --out, "
                            'or move it')
    sizes = DemoSizes(image_size=args.size)
    bank = TextureBank(sizes.seed, sizes.tiles)
    # no two of these hold the same image
    for number, (folder, wanted) in enumerate(
            {images: args.images, own / 'train': args.labelled,
             own / 'val': args.val}.items()):
        print(f'{wanted} images: {folder}', flush=True)
        draw_classification(folder, bank, sizes, number, wanted)
    for number, (split, wanted) in enumerate(
            dict(train=args.boxes, val=args.val).items(), 3):
        print(f'{wanted} images: {boxes / split}', flush=True)
        draw_detection(boxes, split, bank, sizes, number, wanted)
    CONFIG.write_text(CONTENT.format(
        base=os.path.relpath(ROOT / RETINANET), classes=CLASSES,
        root=f'{boxes}/'), encoding='utf-8')
    print(f'and a detector for them: {CONFIG}')


if __name__ == '__main__':
    report_user_errors(main)
