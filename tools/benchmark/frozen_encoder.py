# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Step time and memory of training a detector on a frozen encoder.

The same detector with random weights is trained on a frozen and on a trained
encoder: steps are timed in turn, memory is measured in one process each.
"Kept" is what autograd keeps of a forward pass for the backward pass; "peak"
is how much memory grows during steps (resident on the CPU, allocated on
CUDA).
"""
import argparse
import multiprocessing
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from common import describe, make_parser, medians, parse
from mmdet.registry import MODELS
from mmdet.testing import demo_mm_inputs
from mmdet.utils import register_all_modules
from torch import Tensor, nn

import qbheat_mm.detection  # noqa: F401
from qbheat_mm.cli import count, read_config, report_user_errors

CONFIG = (Path(__file__).resolve().parents[2] / 'configs/qbheat/coco' /
          'mf-dec-211_mf-285m_frozen_8xb2-500e_coco.py')
FROZEN = dict(frozen={}, trained=dict(frozen_stages=-1, norm_eval=True))


def build(kind: str, args: argparse.Namespace) -> nn.Module:
    """The detector in training mode; ``kind`` is a key of FROZEN."""
    torch.manual_seed(0)
    cfg = read_config(args.config)
    cfg.model.backbone.update(init_cfg=None, **FROZEN[kind])
    return MODELS.build(cfg.model).train().to(args.device)


def make_batch(args: argparse.Namespace) -> dict:
    """Random images with ten random boxes of the first class each."""
    batch = demo_mm_inputs(
        args.batch_size,
        image_shapes=(3, *args.size),
        num_items=[10] * args.batch_size,
        with_mask=True,
        device=args.device)
    for sample in batch['data_samples']:
        sample.gt_instances.labels.zero_()
    return batch


def make_step(model: nn.Module, batch: dict) -> Callable[[], None]:
    """One step of training, as mmengine takes it."""
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=1e-6)

    def step() -> None:
        losses = model(**model.data_preprocessor(batch, True), mode='loss')
        loss, _ = model.parse_losses(losses)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def kept_bytes(model: nn.Module, step: Callable[[], None]) -> int:
    """Bytes of the storages, parameters apart, that autograd keeps."""
    storages = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        step()
    for parameter in model.parameters():
        storages.pop(parameter.untyped_storage().data_ptr(), None)
    return sum(storages.values())


def memory(kind: str, args: argparse.Namespace) -> tuple[int, int]:
    """Bytes (kept, peak) of a detector; run in a process of its own."""
    register_all_modules()
    torch.set_num_threads(args.threads)
    model = build(kind, args)
    step = make_step(model, make_batch(args))
    before = used_at_most(args.device)
    step()
    step()  # with the optimizer's state
    peak = used_at_most(args.device) - before
    return kept_bytes(model, step), peak


def used_at_most(device: str) -> int:
    """Highest use of memory so far, in bytes."""
    if device.startswith('cuda'):
        return torch.cuda.max_memory_allocated()
    # kilobytes, but bytes on macOS
    unit = 1 if sys.platform == 'darwin' else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument('--config', default=str(CONFIG),
                        help='of a detector whose backbone can be frozen')
    parser.add_argument('--batch-size', type=count, default=2)
    parser.add_argument('--size', type=count, nargs=2, default=(800, 1333),
                        metavar=('H', 'W'))
    args = parse(parser)
    with multiprocessing.get_context('spawn').Pool(
            1, maxtasksperchild=1) as pool:
        sizes = {kind: pool.apply(memory, (kind, args)) for kind in FROZEN}
    register_all_modules()
    batch = make_batch(args)
    times = medians({kind: make_step(build(kind, args), batch)
                     for kind in FROZEN}, args, warmups=1)
    print(Path(args.config).stem)
    print(describe(args, f'batch {args.batch_size}',
                   f'{args.size[0]}x{args.size[1]}', 'float32'))
    rows = {kind: (times[kind], *(size / 2**20 for size in sizes[kind]))
            for kind in FROZEN}
    for kind, (seconds, kept, peak) in rows.items():
        print(f'{kind:<8} encoder: {seconds:8.3f} s a step, '
              f'{kept:8.0f} MiB kept, {peak:8.0f} MiB at peak')
    ratios = [a / b for a, b in zip(*rows.values())]
    print('frozen / trained: {:.2f} time, {:.2f} kept, {:.2f} peak'.format(
        *ratios))


if __name__ == '__main__':
    report_user_errors(main)
