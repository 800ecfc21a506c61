# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Latency of MF-Dec next to mmdet's DETR and RetinaNet, for one image.

Prints milliseconds and, in parentheses, the ratio to DETR-R50; compare the
ratios. `predict` is the whole detector in eager PyTorch; weights are random,
which leaves RetinaNet's NMS little to do. The other ways run the network
without post-processing: in eager PyTorch, torch.compile, ONNX Runtime and
OpenVINO.
"""
import argparse

import common
import torch
from mmdet.registry import MODELS
from mmdet.structures import DetDataSample
from mmdet.utils import register_all_modules
from mmengine.config import Config
from mmengine.hub import get_config
from torch import Tensor, nn

import qbheat_mm.detection  # noqa: F401
from qbheat_mm.cli import report_user_errors
from qbheat_mm.export.detectors import detector_network
from qbheat_mm.export.network import folded
from qbheat_mm.export.programs import relative_difference
from qbheat_mm.utils.complexity import count_madds, count_parameters

OURS = {
    f'MF-Dec-{decoder} on MF-{encoder.upper()}':
    f'mf-dec-{decoder}_mf-{encoder}_frozen_8xb2-500e_coco.py'
    for encoder in ('285m', '1.0g', '3.7g') for decoder in ('211', '522')}
THEIRS = {
    'DETR-R50': 'detr/detr_r50_8xb2-150e_coco.py',
    'RetinaNet-R50': 'retinanet/retinanet_r50_fpn_1x_coco.py'}
BASELINE = 'DETR-R50'
WAYS = ('predict', 'eager', 'compiled', *common.RUNTIMES)
TOLERANCE = 1e-2  # random weights, many layers deep


def parse_args() -> argparse.Namespace:
    parser = common.make_parser(__doc__, repeats=10)
    common.add_size(parser, 800, 1333)
    parser.add_argument(
        '--names', nargs='+', choices=[*OURS, *THEIRS], help='detectors',
        default=[*(name for name in OURS if '285M' in name), *THEIRS])
    parser.add_argument(
        '--ways', nargs='+', choices=WAYS, default=['predict'],
        help='how to run them; defaults to predict')
    return common.parse(parser)


def build(name: str) -> nn.Module:
    """Build a detector with random weights."""
    if name in OURS:
        cfg = Config.fromfile(common.CONFIGS / 'coco' / OURS[name])
    else:
        cfg = get_config(f'mmdet::{THEIRS[name]}')
    cfg.model.backbone.init_cfg = None
    return MODELS.build(cfg.model).eval()


def make_sample(size: list[int]) -> DetDataSample:
    """Describe an image without padding."""
    return DetDataSample(metainfo=dict(
        img_shape=size, ori_shape=size, batch_input_shape=size,
        scale_factor=(1., 1.)))


class OneImage(nn.Module):
    """A detector up to its post-processing, with BN folded."""

    def __init__(self, model: nn.Module, is_detr: bool) -> None:
        super().__init__()
        model = folded(model)
        self.is_detr = is_detr
        self.network = model if is_detr else detector_network(model)
        self.eval()

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        """Map (1, 3, H, W) to the network's outputs."""
        if not self.is_detr:
            return tuple(self.network(image).values())
        states = self.network.forward_transformer(
            self.network.extract_feat(image),
            [make_sample(tuple(image.shape[2:]))])
        return self.network.bbox_head(states['hidden_states'][-1])


def make_steps(name: str, model: nn.Module, args: argparse.Namespace
               ) -> dict[str, common.Step]:
    """Make a step for each way to run a detector.

    Raises:
        RuntimeError: If one computes other outputs than eager PyTorch.
    """
    image = torch.randn(1, 3, *args.size, device=args.device)
    network = OneImage(model, name == BASELINE)
    steps: dict[str, common.Step] = dict(eager=lambda: network(image))
    if 'compiled' in args.ways:
        compiled = torch.compile(network)
        steps['compiled'] = lambda: compiled(image)
    for way in {*args.ways} & {*common.RUNTIMES}:
        steps[way] = common.in_runtime(way, network, image, args.threads)
    expected = network(image)
    for way, step in steps.items():
        difference = max(
            relative_difference(torch.as_tensor(output), wanted)
            for output, wanted in zip(step(), expected, strict=True))
        if difference > TOLERANCE:
            raise RuntimeError(f'{name} in {way} differs by {difference}')
    steps['predict'] = lambda: model(
        image, [make_sample(tuple(args.size))], mode='predict')
    return {way: steps[way] for way in args.ways}


@torch.no_grad()
def main() -> None:
    args = parse_args()
    register_all_modules()
    if {*args.ways} & {*common.RUNTIMES}:  # cannot export the fast path
        torch.backends.mha.set_fastpath_enabled(False)
    models = {name: build(name).to(args.device) for name in args.names}
    steps = {(name, way): step for name, model in models.items()
             for way, step in make_steps(name, model, args).items()}
    times = common.medians(steps, args, warmups=2)
    print(common.describe(args, 'one image of {}x{}'.format(*args.size),
                          'float32', 'random weights'))
    print(f'{"":<22}{"params":>8}{"MAdds":>9}' + ''.join(
        f'{way:>20}' for way in args.ways))
    image = torch.empty(1, 3, *args.size, device='meta')
    for name, model in models.items():
        madds = count_madds(model, image, [make_sample(tuple(args.size))])
        print(f'{name:<22}{count_parameters(model) / 1e6:7.1f}M'
              f'{madds / 1e9:8.1f}G', end='')
        for way in args.ways:
            seconds, baseline = times[name, way], times.get((BASELINE, way))
            ratio = f' ({seconds / baseline:.2f})' if baseline else ''
            print(f'{f"{seconds * 1e3:.0f} ms{ratio}":>20}', end='')
        print()


if __name__ == '__main__':
    report_user_errors(main)
