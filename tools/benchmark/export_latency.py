# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Latency of exported detectors beside PyTorch, and beside DETR-R50.

The networks of detector_latency.py, without what follows them (the choice of
the best queries, NMS), for one image of one size: in eager PyTorch,
torch.compile and, where installed, ONNX Runtime and OpenVINO. Compare the
ratios.
"""
from collections.abc import Callable

import torch
from common import (
    RUNTIMES,
    describe,
    in_runtime,
    make_parser,
    medians,
    parse,
    runtimes,
)
from detector_latency import OURS, THEIRS, build, make_sample
from mmdet.utils import register_all_modules
from torch import Tensor, nn

from qbheat_mm.cli import count, report_user_errors
from qbheat_mm.export.detectors import detector_network
from qbheat_mm.export.network import folded
from qbheat_mm.export.programs import largest_difference

WAYS = ('eager', 'compiled', *RUNTIMES)
BESIDE = 'DETR-R50'


class OneImage(nn.Module):
    """The network of a detector, for one image without padding."""

    def __init__(self, name: str) -> None:
        super().__init__()
        model = folded(build(name))
        self.is_detr = name == BESIDE
        self.network = model if self.is_detr else detector_network(model)
        self.eval()

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        """(1, 3, H, W) to the outputs of the network."""
        size = tuple(image.shape[2:])
        if not self.is_detr:
            return self.network(image)
        states = self.network.forward_transformer(
            self.network.extract_feat(image), [make_sample(size)])
        logits, boxes = self.network.bbox_head(states['hidden_states'][-1])
        return dict(logits=logits, boxes=boxes)


def make_steps(name: str, ways: list[str], image: Tensor, threads: int
               ) -> dict[str, Callable[[], dict]]:
    """Make a step for each way, and compare what they compute.

    Raises:
        RuntimeError: If one computes something else.
    """
    network = OneImage(name)
    steps = dict(eager=lambda: network(image))
    if 'compiled' in ways:
        compiled = torch.compile(network)
        steps['compiled'] = lambda: compiled(image)
    for way in set(ways) & set(RUNTIMES):
        steps[way] = in_runtime(
            way, network, image, list(network(image)), threads)
    wanted = steps['eager']()
    for way, step in steps.items():
        found = {key: torch.as_tensor(value) for key, value in step().items()}
        difference, output = largest_difference(found, wanted)
        if not difference < 1e-2:  # of random weights, many layers deep
            raise RuntimeError(f'{output} of {name} differs by {difference} '
                               f'({way})')
    return {way: steps[way] for way in ways}


@torch.no_grad()
def main() -> None:
    parser = make_parser(__doc__, repeats=10)
    parser.add_argument(
        '--size', type=count, nargs=2, default=(800, 1333), metavar=('H', 'W'))
    parser.add_argument(
        '--names', nargs='+', choices=[*OURS, *THEIRS],
        default=[name for name in OURS if '285M' in name] + list(THEIRS))
    parser.add_argument(
        '--ways', nargs='+', choices=WAYS,
        help='by default all that are installed')
    parser.set_defaults(device='cpu')
    args = parse(parser)
    register_all_modules()
    torch.backends.mha.set_fastpath_enabled(False)  # which no exporter knows
    ways = args.ways or ['eager', 'compiled', *runtimes()]
    image = torch.randn(1, 3, *args.size)
    steps = {
        (name, way): step for name in args.names
        for way, step in make_steps(
            name, ways, image, args.threads).items()}
    times = medians(steps, args, warmups=2)
    print(describe(args, 'one image of {}x{}'.format(*args.size), 'float32',
                   'random weights', 'without post-processing'),
          f', ms (over {BESIDE})', sep='')
    print(f'{"":<22}' + ''.join(f'{way:>20}' for way in ways))
    for name in args.names:
        print(f'{name:<22}', end='')
        for way in ways:
            seconds, other = times[name, way], times.get((BESIDE, way))
            ratio = f' ({seconds / other:.2f})' if other else ''
            print(f'{f"{seconds * 1e3:.0f}{ratio}":>20}', end='')
        print()


if __name__ == '__main__':
    report_user_errors(main)
