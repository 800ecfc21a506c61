# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Say where ONNX Runtime spends the time of an encoder.

Prints the nodes of the optimized graph and their time by operator, for one
image and one thread, next to torchvision's MobileNetV3-Large. Profiling adds
to the time of each node.
"""
import json
import statistics
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import common
import onnxruntime
import torch
from encoder_speed import Classifier
from torch import Tensor, nn
from torchvision.models import mobilenet_v3_large

from qbheat_mm.cli.arguments import count
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.export.network import folded
from qbheat_mm.export.onnx_graph import to_onnx


@torch.no_grad()
def profile(network: nn.Module, images: Tensor, repeats: int
            ) -> tuple[Counter, Counter]:
    """Return the number and the milliseconds of nodes by operator.

    Milliseconds are the sum of each node's median.
    """
    program = torch.export.export(folded(network), (images, ), strict=False)
    model = to_onnx(program, input_names=['images']).model_proto
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = f'{folder}/profile'
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options,
            providers=['CPUExecutionProvider'])
        for _ in range(repeats):
            session.run(None, dict(images=images.numpy()))
        events = json.loads(Path(session.end_profiling()).read_text())
    durations = defaultdict(list)
    for event in events:
        if event['name'].endswith('_kernel_time'):
            node = event['args']['op_name'], event['name']
            durations[node].append(event['dur'])
    nodes, times = Counter(), Counter()
    for (operator, _), of_node in durations.items():
        nodes[operator] += 1
        times[operator] += statistics.median(of_node) / 1e3
    return nodes, times


def main() -> None:
    parser = common.make_parser(__doc__, repeats=50)
    parser.add_argument('--arch', default='mf-285m')
    parser.add_argument('--size', type=count, default=224)
    args = common.parse(parser)
    images = torch.randn(1, 3, args.size, args.size)
    for name, net in ((args.arch, Classifier(args.arch)),
                      ('mobilenet_v3_large', mobilenet_v3_large())):
        nodes, times = profile(net.eval(), images, args.repeats)
        total = times.total()
        print(f'{name}: {nodes.total()} nodes, {total:.1f} ms')
        for operator, ms in times.most_common():
            print(f'  {operator:<24}{nodes[operator]:4} nodes {ms:7.2f} ms '
                  f'{ms / total:6.1%}')


if __name__ == '__main__':
    report_user_errors(main)
