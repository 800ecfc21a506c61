# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Latency and multiply-adds of MF-Dec beside mmdet's DETR and RetinaNet.

One image goes through each detector in turn, with post-processing; look at
the ratios. Weights are random, which leaves RetinaNet's NMS little to do.
"""
from functools import partial

import torch
from common import CONFIGS, describe, make_parser, medians, parse
from mmdet.registry import MODELS
from mmdet.structures import DetDataSample
from mmdet.utils import register_all_modules
from mmengine.config import Config
from mmengine.hub import get_config
from torch import nn

import qbheat_mm.detection  # noqa: F401
from qbheat_mm.cli import count, report_user_errors
from qbheat_mm.utils.complexity import count_madds, count_parameters

ENCODERS = ('285m', '1.0g', '3.7g')
OURS = {
    f'MF-Dec-{decoder} on MF-{encoder.upper()}':
    f'mf-dec-{decoder}_mf-{encoder}_frozen_8xb2-500e_coco.py'
    for encoder in ENCODERS for decoder in ('211', '522')}
THEIRS = {
    'DETR-R50': 'detr/detr_r50_8xb2-150e_coco.py',
    'RetinaNet-R50': 'retinanet/retinanet_r50_fpn_1x_coco.py'}


def build(name: str) -> nn.Module:
    """A detector with random weights."""
    cfg = (Config.fromfile(CONFIGS / 'coco' / OURS[name]) if name in OURS
           else get_config(f'mmdet::{THEIRS[name]}'))
    cfg.model.backbone.init_cfg = None
    return MODELS.build(cfg.model).eval()


def make_sample(size: tuple[int, int]) -> DetDataSample:
    """One image of this size, without padding."""
    return DetDataSample(metainfo=dict(
        img_shape=size, ori_shape=size, batch_input_shape=size,
        scale_factor=(1., 1.)))


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__, repeats=10)
    parser.add_argument('--size', type=count, nargs=2, default=(800, 1333),
                        metavar=('H', 'W'))
    parser.add_argument('--encoders', nargs='+', default=['285m'],
                        choices=ENCODERS)
    args = parse(parser)
    register_all_modules()
    size = tuple(args.size)
    names = [name for name in OURS
             if name.split('-')[-1].lower() in args.encoders] + list(THEIRS)
    models = {name: build(name) for name in names}
    madds = {
        name: count_madds(model, torch.empty(1, 3, *size, device='meta'),
                          [make_sample(size)])
        for name, model in models.items()}
    image = torch.randn(1, 3, *size, device=args.device)

    def detect(model: nn.Module) -> None:
        with torch.no_grad():
            model(image, [make_sample(size)], mode='predict')

    times = medians({name: partial(detect, model.to(args.device))
                     for name, model in models.items()}, args, warmups=2)
    print(describe(args, f'one image of {size[0]}x{size[1]}', 'float32',
                   'random weights'))
    print(f'{"":<22} {"params":>8} {"MAdds":>8} {"latency":>10}  '
          + '  '.join(f'to {name}' for name in THEIRS))
    for name, model in models.items():
        ratios = '  '.join(f'{times[name] / times[other]:{len(other) + 3}.2f}'
                           for other in THEIRS)
        print(f'{name:<22} {count_parameters(model) / 1e6:7.1f}M '
              f'{madds[name] / 1e9:7.1f}G {times[name] * 1e3:7.0f} ms  '
              f'{ratios}')


if __name__ == '__main__':
    report_user_errors(main)
