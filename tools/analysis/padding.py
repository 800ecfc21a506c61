# Copyright (c) QB-Heat MM authors. All rights reserved.
"""How much of a batch's padding an encoder sees.

In a batch, smaller images are padded with zeros to the right and below.
MF-Dec masks the padding, the encoder does not: tokens attend to it, and
convolutions at the content's edge reach into it. Prints the relative change
|padded - alone| / |alone| of the features of an image's content, the mean over
images: of the whole content, and of what lies more than --margin pixels from
the padding.
"""
import argparse
import statistics

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import update_bn

import qbheat_mm.detection  # noqa: F401
from qbheat_mm.apis import build_encoder, load_encoder
from qbheat_mm.cli import count, read_config, report_user_errors
from qbheat_mm.cli.analysis_tool import to_batch
from qbheat_mm.cli.command_line import whole
from qbheat_mm.datasets import find_images, load_images, spread
from qbheat_mm.trained import Encoder


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', help='of a detector')
    parser.add_argument('images', nargs='+', help='files or folders')
    parser.add_argument(
        '--checkpoint', help='of the encoder; by default random weights, with '
        'BN calibrated on the images')
    parser.add_argument('--num-images', type=count, default=8)
    parser.add_argument(
        '--size', type=count, nargs=2, default=(800, 1066), metavar=('H', 'W'),
        help='images are scaled and cropped to this')
    parser.add_argument(
        '--margin', type=whole, default=128, metavar='PIXELS')
    args = parser.parse_args()
    if args.margin >= min(args.size):
        parser.error(f'--margin {args.margin} leaves nothing of an image of '
                     f'{args.size[0]}x{args.size[1]}')
    return args


@torch.no_grad()
def changes(encoder: Encoder, image: Tensor, batch_shape: tuple[int, int],
            margin: int) -> list[tuple[float, float]]:
    """Measure the relative change of each output: of all content, and inside.

    Args:
        encoder (Encoder): Returns maps (1, C, h, w).
        image (Tensor): Normalized, (1, 3, H, W).
        batch_shape (tuple[int, int]): Size to pad to.
        margin (int): Distance of "inside" from the padding, in pixels.
    """
    height, width = image.shape[-2:]
    padded = nn.functional.pad(
        image, (0, batch_shape[1] - width, 0, batch_shape[0] - height))
    found = []
    for alone, together in zip(encoder(image), encoder(padded)):
        h, w = alone.shape[-2:]
        together = together[..., :h, :w]
        # Only where there is padding on that side.
        inside_h = h - (h * margin // height) * (batch_shape[0] > height)
        inside_w = w - (w * margin // width) * (batch_shape[1] > width)
        found.append(
            tuple(((a - b).norm() / b.norm()).item() for a, b in (
                (together, alone), (together[..., :inside_h, :inside_w],
                                    alone[..., :inside_h, :inside_w]))))
    return found


def main() -> None:
    args = parse_args()
    torch.manual_seed(0)
    cfg = read_config(args.config)
    cfg.model.backbone.update(frozen_stages=-1, init_cfg=None)
    size = tuple(args.size)
    _, images = load_images(
        spread(find_images(args.images), args.num_images), size)
    outputs = cfg.model.backbone.get('out_indices')
    encoder = (load_encoder(args.checkpoint, cfg, outputs) if args.checkpoint
               else build_encoder(cfg, args.config, outputs))
    images = encoder.normalize(to_batch(images)).split(1)
    if not args.checkpoint:
        update_bn(images, encoder)
    print(f'{args.config}\n{args.checkpoint or "random weights"}, '
          f'{len(images)} images of {size[0]}x{size[1]}\n'
          'output  padded to   padding  whole content  inside')
    for more_h, more_w in ((1, 1.25), (1.25, 1), (1.25, 1.25), (1.5, 1.5)):
        shape = round(size[0] * more_h), round(size[1] * more_w)
        rows = [changes(encoder, image, shape, args.margin)
                for image in images]
        part = 1 - size[0] * size[1] / (shape[0] * shape[1])
        for index, values in zip(encoder.backbone.out_indices, zip(*rows)):
            content, inside = map(statistics.mean, zip(*values))
            print(f'{index:<6}  {shape[0]:>4}x{shape[1]:<5}  {part:6.0%}  '
                  f'{content:12.1%}  {inside:7.1%}')


if __name__ == '__main__':
    report_user_errors(main)
