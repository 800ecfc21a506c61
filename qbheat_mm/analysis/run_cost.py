# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What will a run cost? Measured on this machine, computed for others."""
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS, DefaultScope
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ..engine.auto_scale_runner import use_float32
from ..errors import UserError
from ..models.backbones import MobileFormer
from ..utils.complexity import count_parameters, flop_counter, kept_bytes
from ..utils.settings import type_name

#: Dense TFLOP/s in fp16 or bf16 and in fp32, and memory bandwidth in GB/s, as
#: the manufacturer states them (SXM modules; A100 and H100 with 80 GB).
ACCELERATORS = {
    't4': (65, 8.1, 320), 'v100': (125, 15.7, 900),
    'a100': (312, 19.5, 2039), 'h100': (989, 67, 3350),
    'rtx3090': (71, 35.6, 936), 'rtx4090': (165, 82.6, 1008)}
#: Each operation takes its share of this part of the peak rate, and of memory
#: bandwidth, by what a byte of traffic is good for in mixed precision: twice
#: as many operations as in float32. Fitted to timm's published training rates
#: on an RTX 3090: 1,054 images/s of DeiT-S, 1,459 of EfficientNet-B0.
PEAK_SHARE = 0.7
FLOP_PER_BYTE = dict(dense=75, mobile=3.9)
#: Seconds that a CPU takes for an operation in eager PyTorch: an assumption.
#: Small batches wait for these.
LAUNCH = 7e-6
# Activations are measured on batches of this size at most.
_SMALL = 4


@dataclass(frozen=True)
class Work:
    """What there is to compute for an image.

    Attributes:
        forward (float): Multiply-adds of the forward pass.
        frozen (float): Those of it without a backward pass.
        mobile (float): Those of a training step in mobile networks.
        dense (float): All others of a training step.
        launches (float): Operations of a training step.
    """
    forward: float
    frozen: float
    mobile: float
    dense: float
    launches: float

    def seconds(self, accelerator: str, amp: bool, batch: int) -> float:
        """Compute the time of an image in a batch on one accelerator."""
        half, single, bandwidth = ACCELERATORS[accelerator]
        peak = 1e12 * PEAK_SHARE * (half if amp else single)
        traffic = 1e9 * bandwidth / (1 if amp else 2)
        busy = sum(2 * madds * (1 / peak + 1 / (
            traffic * FLOP_PER_BYTE[kind])) for kind, madds in (
                ('dense', self.dense), ('mobile', self.mobile)))
        return max(busy, self.launches * LAUNCH / batch)

    def utilization(self, accelerator: str, amp: bool, batch: int) -> float:
        """The share of the peak rate that :meth:`seconds` assumes."""
        peak = 1e12 * ACCELERATORS[accelerator][0 if amp else 1]
        return 2 * (self.mobile + self.dense) / (
            peak * self.seconds(accelerator, amp, batch))


def is_amp(cfg: Mapping) -> bool:
    """Whether a config trains in mixed precision."""
    return type_name(cfg['optim_wrapper']) == 'AmpOptimWrapper'


def count_steps(cfg: Mapping, images: int, processes: int) -> tuple[int, int]:
    """Steps of an epoch and of a run; 0 of an epoch if there are none.

    Args:
        cfg (Mapping): The config.
        images (int): Images of the data set.
        processes (int): Number of processes, each with the config's batch.
    """
    loader, loop = cfg['train_dataloader'], cfg['train_cfg']
    if loop.get('max_epochs') is None:
        return 0, loop['max_iters']
    share = -(-images // processes)  # the sampler repeats some images
    batch = loader['batch_size']
    epoch = share // batch if loader.get('drop_last') else -(-share // batch)
    if not epoch:
        raise UserError(f'{images} images for {processes} process(es) fill '
                        f'no batch of train_dataloader.batch_size={batch}')
    return epoch, epoch * loop['max_epochs']


class TrainingStep:
    """The model of a config with random weights, and its optimizer.

    Args:
        cfg (Config): The config.
        device (str): Where it runs, on the CPU in float32.
    """

    def __init__(self, cfg: Config, device: str) -> None:
        self.cfg, self.device = cfg, device
        self.amp = is_amp(cfg)
        settings = cfg.model.copy()
        if 'data_preprocessor' in cfg:  # as the runner does
            settings.setdefault('data_preprocessor', cfg.data_preprocessor)
        wrapper = cfg.optim_wrapper.copy()
        if self.amp and device == 'cpu':
            use_float32(wrapper)
        with DefaultScope.overwrite_default_scope(cfg.default_scope):
            self.model = MODELS.build(settings).train().to(device)
            self.optimizer = build_optim_wrapper(self.model, wrapper)

    def batches(self, samples: Sequence[Any], size: int) -> list[Any]:
        """Batch samples as a run does; the last may be smaller."""
        given = self.cfg.train_dataloader
        loader = dict(batch_size=size, num_workers=0, dataset=samples,
                      sampler=dict(type='DefaultSampler', shuffle=False))
        if 'collate_fn' in given:
            loader['collate_fn'] = given.collate_fn
        with DefaultScope.overwrite_default_scope(self.cfg.default_scope):
            return list(Runner.build_dataloader(loader))

    def loss(self, batch: Any) -> Tensor:
        """Take a forward pass in the config's precision."""
        kind = torch.device(self.device).type
        dtype = torch.bfloat16 if kind == 'cpu' else torch.float16
        with torch.autocast(kind, dtype, enabled=self.amp):
            inputs = self.model.data_preprocessor(batch, True)
            if isinstance(inputs, Mapping):
                losses = self.model(**inputs, mode='loss')
            else:
                losses = self.model(*inputs, mode='loss')
        return self.model.parse_losses(losses)[0]

    def seconds(self, batch: Any, repeats: int = 3) -> float:
        """Measure the mean time of a training step after the first."""
        for repeat in range(repeats + 1):
            if repeat == 1:
                start = time.perf_counter()
            log = self.model.train_step(batch, self.optimizer)
            log['loss'].item()  # waits for a GPU
        return (time.perf_counter() - start) / repeats

    def work(self, batches: Sequence[Any], images: int) -> Work:
        """Count multiply-adds; what is trained passes backward at twice those.

        PyTorch's own count of the backward pass of depthwise convolutions
        would be that of dense ones.
        """
        parts = sum((_count_parts(self.model, lambda batch=batch: self.loss(
            batch)) for batch in batches), Counter())
        flops = {key[1:]: n for key, n in parts.items() if key[0] == 'flops'}
        step = {key: n * (1 if key[-1] else 3) for key, n in parts.items()}
        return Work(
            forward=sum(flops.values()) / 2 / images,
            frozen=sum(n for key, n in flops.items() if key[1]) / 2 / images,
            mobile=_sum(step, 'flops', 'mobile') / 2 / images,
            dense=_sum(step, 'flops', 'dense') / 2 / images,
            launches=_sum(step, 'launches') / len(batches))

    def activations(self, samples: Sequence[Any]) -> float:
        """Bytes kept for the backward pass at the config's batch size."""
        batch = self.cfg.train_dataloader.batch_size
        sizes = [batch] if batch <= _SMALL else [_SMALL // 2, _SMALL]
        kept = [kept_bytes(self.model, lambda n=n: self.loss(
            self.batches(samples[:n], n)[0])) for n in sizes]
        return kept[-1] + (kept[-1] - kept[0]) / (_SMALL // 2) * (
            batch - sizes[-1])

    def memory(self) -> dict[str, int]:
        """Bytes of the model and, after a step, of its optimizer."""
        trained = [p for p in self.model.parameters() if p.requires_grad]
        state = self.optimizer.optimizer.state.values()
        return dict(
            parameters=4 * count_parameters(self.model),
            gradients=4 * sum(p.numel() for p in trained),
            optimizer=sum(value.nbytes for values in state
                          for value in values.values()
                          if isinstance(value, Tensor)))


class _Launches(TorchDispatchMode):
    """Counts operations."""
    number = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.number += 1
        return func(*args, **(kwargs or {}))


def _count_parts(model: nn.Module, run: Callable[[], Any]) -> Counter:
    """Count FLOPs and launches of a call, by parts of the model.

    Returns:
        Counter: Its keys are ``('flops' or 'launches', 'mobile' or 'dense',
        whether the part is frozen)``.
    """
    parts, inside, handles = Counter(), [], []
    with _Launches() as launches, flop_counter() as counter:

        def now() -> tuple[int, int]:
            return counter.get_total_flops(), launches.number

        def enter(*_) -> None:
            inside.append(now())

        def add(kind: tuple[str, bool], start: tuple[int, int],
                sign: int = 1) -> None:
            for what, end, begin in zip(('flops', 'launches'), now(), start):
                parts[(what, *kind)] += sign * (end - begin)

        for part in model.children():
            parameters = list(part.parameters())
            frozen = bool(parameters) and not any(
                p.requires_grad for p in parameters)
            mobile = any(isinstance(m, MobileFormer) for m in part.modules())
            kind = ('mobile' if mobile else 'dense', frozen)

            def leave(*_, kind=kind) -> None:
                start = inside.pop()
                if not inside:  # MoCo's parts are parts of others
                    add(kind, start)
                    add(('dense', False), start, -1)

            handles += [part.register_forward_pre_hook(enter),
                        part.register_forward_hook(leave)]
        run()
        add(('dense', False), (0, 0))
    for handle in handles:
        handle.remove()
    return parts


def _sum(counts: Mapping, *start: str) -> float:
    return sum(n for key, n in counts.items() if key[:len(start)] == start)
