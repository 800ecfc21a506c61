# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Latency of MF-Dec next to mmdet's DETR and RetinaNet, for one image.

Prints milliseconds and, in parentheses, the ratio to DETR-R50; compare the
ratios. `predict` is the whole detector in eager PyTorch; weights are random,
which leaves RetinaNet's NMS little to do. The other ways run the network
without post-processing: in eager PyTorch, torch.compile, ONNX Runtime and
OpenVINO. With --train, times training steps of one detector instead, on a
frozen and on a trained encoder; memory is what autograd keeps of a forward
pass for the backward pass.
"""
import argparse
from functools import partial
from pathlib import Path
from typing import NamedTuple

import common
import torch
from counters import kept_bytes
from mmdet.registry import MODELS
from mmdet.structures import DetDataSample
from mmdet.testing import demo_mm_inputs
from mmdet.utils import register_all_modules
from mmengine.config import Config
from mmengine.hub import get_config
from torch import Tensor, nn

import qbheat_mm.detection  # noqa: F401
from qbheat_mm.cli.arguments import count
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.config.reading import read_config
from qbheat_mm.export.network import folded
from qbheat_mm.utils.complexity import count_madds, count_parameters

COCO = common.CONFIGS / 'coco'
OURS = {}
for encoder in ('285m', '1.0g', '3.7g'):
    for decoder in ('211', '522'):
        OURS[f'MF-Dec-{decoder} on MF-{encoder.upper()}'] = (
            f'mf-dec-{decoder}_mf-{encoder}_frozen_8xb2-500e_coco.py')
THEIRS = {
    'DETR-R50': 'detr/detr_r50_8xb2-150e_coco.py',
    'RetinaNet-R50': 'retinanet/retinanet_r50_fpn_1x_coco.py'}
BASELINE = 'DETR-R50'
DEFAULT = [*(name for name in OURS if '285M' in name), *THEIRS]
WAYS = ('predict', 'eager', 'compiled', *common.RUNTIMES)


def parse_args() -> argparse.Namespace:
    parser = common.make_parser(__doc__, repeats=10)
    parser.add_argument('--size', type=count, nargs=2, default=[800, 1333],
                        metavar=('HEIGHT', 'WIDTH'))
    parser.add_argument(
        '--names', nargs='+', choices=[*OURS, *THEIRS], help='detectors',
        default=DEFAULT)
    parser.add_argument(
        '--ways', nargs='+', choices=WAYS, default=['predict'],
        help='how to run them; defaults to predict')
    parser.add_argument(
        '--train', nargs='?', metavar='CONFIG',
        const=str(COCO / OURS['MF-Dec-211 on MF-285M']),
        help='train the detector of CONFIG; defaults to MF-Dec-211')
    parser.add_argument('--batch-size', type=count, default=2,
                        help='images per training step')
    return common.parse(parser)


def build(name: str) -> nn.Module:
    """Build a detector with random weights."""
    if name in OURS:
        cfg = Config.fromfile(COCO / OURS[name])
    else:
        cfg = get_config(f'mmdet::{THEIRS[name]}')
    cfg.model.backbone.init_cfg = None
    return MODELS.build(cfg.model).eval()


def make_samples(size: list[int]) -> list[DetDataSample]:
    """Describe an image without padding."""
    shape = tuple(size)
    return [DetDataSample(metainfo=dict(
        img_shape=shape, ori_shape=shape, batch_input_shape=shape,
        scale_factor=(1., 1.)))]


class Network(nn.Module):
    """A detector without post-processing, with BN folded."""

    def __init__(self, model: nn.Module,
                 samples: list[DetDataSample] | None) -> None:
        super().__init__()
        self.model, self.samples = folded(model), samples

    def forward(self, image: Tensor) -> tuple:
        """Map (1, 3, H, W) to the outputs of the head."""
        return self.model(image, self.samples, mode='tensor')


def make_steps(name: str, model: nn.Module, ways: list[str], size: list[int],
               args: argparse.Namespace) -> dict[str, common.Step]:
    """Make a step for each way to run a detector."""
    image = torch.randn(1, 3, *size, device=args.device)
    # Without samples MF-Dec masks nothing; DETR needs them.
    network = Network(model, None if name in OURS else make_samples(size))
    steps: dict[str, common.Step] = {}
    for way in ways:
        if way == 'predict':
            steps[way] = lambda: model(
                image, make_samples(size), mode='predict')
        elif way in common.RUNTIMES:
            steps[way] = common.in_runtime(way, network, image, args.threads)
        else:
            part = torch.compile(network) if way == 'compiled' else network
            steps[way] = partial(part, image)
    return steps


class Detector(NamedTuple):
    """What was measured of a detector."""
    name: str
    parameters: int
    madds: int
    seconds: dict[str, float]  # by way

    def format_time(self, way: str, baseline: dict[str, float]) -> str:
        """Format milliseconds and, in parentheses, the ratio to a baseline."""
        text = f'{self.seconds[way] * 1e3:.0f} ms'
        if way in baseline:
            text += f' ({self.seconds[way] / baseline[way]:.2f})'
        return text


@torch.no_grad()
def measure(names: list[str], ways: list[str], size: list[int],
            args: argparse.Namespace) -> list[Detector]:
    """Time detectors for one image of a size; count their operations."""
    register_all_modules()
    if {*ways} & {*common.RUNTIMES}:  # cannot export the fast path
        torch.backends.mha.set_fastpath_enabled(False)
    models, steps = {}, {}
    for name in names:
        models[name] = build(name).to(args.device)
        for way, step in make_steps(
                name, models[name], ways, size, args).items():
            steps[name, way] = step
    times = common.medians(steps, args, warmups=2)
    image = torch.empty(1, 3, *size, device='meta')
    detectors = []
    for name, model in models.items():
        madds = count_madds(model, image, make_samples(size))
        detectors.append(Detector(
            name, count_parameters(model), madds,
            {way: times[name, way] for way in ways}))
    return detectors


def times_of(name: str, detectors: list[Detector]) -> dict[str, float]:
    """Times of a detector by way; none if it was not measured."""
    for detector in detectors:
        if detector.name == name:
            return detector.seconds
    return {}


def print_table(detectors: list[Detector], ways: list[str]) -> None:
    """Print a row for each detector."""
    baseline = times_of(BASELINE, detectors)
    head = ''.join(f'{way:>20}' for way in ways)
    print(f'{"":<22}{"params":>8}{"MAdds":>9}{head}')
    for detector in detectors:
        print(f'{detector.name:<22}{detector.parameters / 1e6:7.1f}M'
              f'{detector.madds / 1e9:8.1f}G', end='')
        for way in ways:
            print(f'{detector.format_time(way, baseline):>20}', end='')
        print()


def time_training(args: argparse.Namespace) -> None:
    """Compare a frozen with a trained encoder."""
    register_all_modules()
    batch = demo_mm_inputs(
        args.batch_size, image_shapes=(3, *args.size),
        num_items=[10] * args.batch_size, with_mask=True, device=args.device)
    for sample in batch['data_samples']:
        sample.gt_instances.labels.zero_()  # a class of every detector

    def loss(model: nn.Module) -> Tensor:
        inputs = model.data_preprocessor(batch, True)
        return model.parse_losses(model(**inputs, mode='loss'))[0]

    steps, kept = {}, {}
    for kind, settings in dict(
            frozen={}, trained=dict(frozen_stages=-1, norm_eval=True)).items():
        torch.manual_seed(0)
        cfg = read_config(args.train)
        cfg.model.backbone.update(init_cfg=None, **settings)
        model = MODELS.build(cfg.model).train().to(args.device)
        steps[kind] = common.make_step(
            lambda model=model: loss(model), torch.optim.AdamW(
                [p for p in model.parameters() if p.requires_grad], lr=1e-6),
            args.device)
        kept[kind] = kept_bytes(model, steps[kind])
    times = common.medians(steps, args, warmups=1)
    print(Path(args.train).stem)
    print(common.describe(args, f'batch {args.batch_size}',
                          '{}x{}'.format(*args.size), 'float32'))
    for kind in steps:
        print(f'{kind:<8} encoder: {times[kind]:8.3f} s a step, '
              f'{kept[kind] / 2**20:8.0f} MiB kept')
    print(f'frozen / trained: {times["frozen"] / times["trained"]:.2f} time, '
          f'{kept["frozen"] / kept["trained"]:.2f} kept')


def main() -> None:
    args = parse_args()
    if args.train:
        time_training(args)
        return
    detectors = measure(args.names, args.ways, args.size, args)
    print(common.describe(args, 'one image of {}x{}'.format(*args.size),
                          'float32', 'random weights'))
    print_table(detectors, args.ways)


if __name__ == '__main__':
    report_user_errors(main)
