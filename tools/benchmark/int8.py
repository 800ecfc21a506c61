# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Quantize an exported classifier to int8: accuracy and time beside float32.

    python tools/export.py CONFIG CHECKPOINT --format onnx \
        --with-preprocessing --out model.onnx
    python tools/benchmark/int8.py model.onnx TRAIN VAL

Static quantization by ONNX Runtime, per channel, calibrated on images of
TRAIN. Both folders contain one subfolder per class.
"""
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
from common import describe, make_parser, medians, parse
from onnxruntime.quantization import CalibrationDataReader, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch.utils.data import Subset
from torchvision.datasets import ImageFolder

from qbheat_mm.cli import count, report_user_errors


class Calibration(CalibrationDataReader):
    """Images spread over a data set, one at a time."""

    def __init__(self, images: ImageFolder, number: int) -> None:
        self.inputs = iter(Subset(
            images, np.linspace(0, len(images) - 1, number, dtype=int)))

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next image, as the network's inputs."""
        image, _ = next(self.inputs, (None, None))
        return None if image is None else dict(images=image)


def load(folder: str, size: tuple[int, int]) -> ImageFolder:
    """Labeled images, (1, H, W, 3), RGB, uint8."""
    return ImageFolder(folder, lambda image: np.asarray(
        image.resize(size[::-1]))[None])


def session(path: str, threads: int) -> onnxruntime.InferenceSession:
    """Load a file."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(
        path, options, providers=['CPUExecutionProvider'])


def main() -> None:
    """Quantize, measure and print."""
    parser = make_parser(__doc__, repeats=50)
    parser.add_argument('model', help='of tools/export.py')
    parser.add_argument('train')
    parser.add_argument('val')
    parser.add_argument('--size', type=count, nargs=2, default=(224, 224),
                        metavar=('H', 'W'), help='that images are resized to')
    parser.add_argument('--images', type=count, default=128,
                        help='for calibration')
    args = parse(parser)
    with tempfile.TemporaryDirectory() as folder:
        ready, small = (str(Path(folder, name)) for name in ('a', 'b'))
        quant_pre_process(args.model, ready, skip_symbolic_shape=True)
        quantize_static(ready, small, Calibration(
            load(args.train, args.size), args.images), per_channel=True)
        sessions = {name: session(path, args.threads) for name, path in dict(
            float32=args.model, int8=small).items()}
    val = load(args.val, args.size)
    first = dict(images=val[0][0])
    times = medians({name: lambda run=each.run: run(['logits'], first)
                     for name, each in sessions.items()}, args)
    print(describe(args, '{}x{}'.format(*args.size), f'{len(val)} images'))
    for name, each in sessions.items():
        right = [each.run(['logits'], dict(images=image))[0].argmax() == label
                 for image, label in val]
        print(f'{name:<8} top-1 {np.mean(right):6.1%}, '
              f'{times[name] / times["float32"]:.2f} of the time of float32')


if __name__ == '__main__':
    report_user_errors(main)
