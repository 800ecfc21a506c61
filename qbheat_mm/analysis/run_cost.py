# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The cost of a run: measured on this machine, computed for others."""
import copy
import os.path as osp
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from timeit import default_timer, timeit
from typing import Any

import cv2
import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import (
    Compose,
    InfiniteSampler,
    default_collate,
    pseudo_collate,
)
from mmengine.optim import OptimWrapper, build_optim_wrapper
from mmengine.registry import DATASETS, MODELS, DefaultScope
from mmengine.runner import set_random_seed
from torch import Tensor

from ..engine.auto_scale_runner import batch_fitter, use_float32
from ..errors import UserError
from ..utils.complexity import flop_counter, kept_bytes, operator_counter
from ..utils.settings import dataset_settings, type_name
from .accelerators import Work, times

# Images of ImageNet-1K, and of COCO with objects.
_ELSEWHERE = dict(ImageNet=1_281_167, train2017=117_266)
_SAMPLES = 8


def count_steps(cfg: Mapping, images: int, batch: int) -> int:
    """Count the steps of a run, given a process's images and batch size."""
    loader, loop = cfg['train_dataloader'], cfg['train_cfg']
    if loop.get('max_epochs') is None:
        return loop['max_iters']
    epoch = images // batch if loader.get('drop_last') else -(-images // batch)
    return epoch * loop['max_epochs']


class TrainingRun:
    """The data of a config, and its model with random weights.

    Args:
        cfg (Config): The config.
        device (str): Device of the model; float32 on the CPU.
        gpus (int): Number of processes of the run.
        images (int, optional): Number of training images. The data is then
            replaced by a synthetic image.

    Attributes:
        batch_size (int): Batch size of a process, lowered as in training.
        input_seconds (float): Time to load an image in one thread.
        forward (float): Multiply-adds per image of a forward pass.
        madds (float): Multiply-adds per image of a training step.
        work (Work): Work of a training step.
        activations (float): Bytes per image that autograd keeps.

    Raises:
        UserError: If the number of images is unknown or too small.
    """

    def __init__(self, cfg: Config, device: str, gpus: int,
                 images: int | None = None) -> None:
        self.cfg, self.device, self.gpus = cfg, device, gpus
        self.amp = type_name(cfg.optim_wrapper) == 'AmpOptimWrapper'
        with DefaultScope.overwrite_default_scope(cfg.default_scope):
            self.images, self.source, dataset = _find_data(cfg, images)
            self._build()
            share = -(-self.images // gpus)  # the sampler repeats some images
            self.batch_size = self._fit_batch(share)
            self.steps = count_steps(cfg, share, self.batch_size)
            self.seen = self.steps * self.batch_size * gpus
            self.drawn = dataset is None
            with tempfile.TemporaryDirectory() as folder:
                self._load(_draw(cfg, osp.join(folder, 'drawn.jpg'))
                           if self.drawn else dataset.__getitem__)
        self._count()

    def _fit_batch(self, images: int) -> int:
        loader = self.cfg.train_dataloader
        sampler = range(images)
        if type_name(loader.get('sampler')) == 'InfiniteSampler':
            sampler = InfiniteSampler(sampler)
        return batch_fitter(self.model, self.gpus)(sampler, loader.batch_size)

    def _load(self, load: Callable[[int], Any]) -> None:
        threads = cv2.getNumThreads(), torch.get_num_threads()
        cv2.setNumThreads(1)
        torch.set_num_threads(1)
        set_random_seed(0)
        load(0)  # the first takes longer
        start = default_timer()
        self.samples = [load(i * self.images // _SAMPLES)
                        for i in range(_SAMPLES)]
        self.input_seconds = (default_timer() - start) / _SAMPLES
        cv2.setNumThreads(threads[0])
        torch.set_num_threads(threads[1])

    def _build(self) -> None:
        settings, wrapper = self.cfg.model.copy(), self.cfg.optim_wrapper
        if 'data_preprocessor' in self.cfg:  # as the runner does
            settings.setdefault('data_preprocessor',
                                self.cfg.data_preprocessor)
        if self.amp and self.device == 'cpu':
            wrapper = wrapper.copy()
            use_float32(wrapper)
        self.model = MODELS.build(settings).train().to(self.device)
        self.optimizer = build_optim_wrapper(self.model, wrapper)
        _update_together(self.optimizer)

    def batches(self, size: int) -> list:
        """Collate the samples, repeated to fill a batch."""
        collate = (pseudo_collate if self.cfg.default_scope == 'mmdet' else
                   default_collate)
        samples = self.samples * -(-size // _SAMPLES)
        return [collate(samples[i:i + size])
                for i in range(0, len(samples), size)]

    def _losses(self, batch: Any) -> Mapping:
        kind = torch.device(self.device).type
        with torch.autocast(kind, enabled=self.amp):
            inputs = self.model.data_preprocessor(batch, True)
            return self.model(**inputs, mode='loss')

    def _count(self) -> None:
        """Count passes and steps; the backward pass of trained parts costs 2x.

        PyTorch counts depthwise convolutions as dense ones backward.
        """
        kept = frozen = self.forward = 0
        # A power of two, since batch norm refuses a last batch of one image.
        size = 1 << min(self.batch_size, _SAMPLES).bit_length() - 1
        for batch in self.batches(size):
            with flop_counter() as counter:
                kept += kept_bytes(self.model, partial(self._losses, batch))
            found = {name: sum(flops.values()) / 2 / _SAMPLES for name, flops
                     in counter.get_flop_counts().items()}
            self.forward += found['Global']
            frozen += sum(
                found.get(f'{type(self.model).__name__}.{name}', 0)
                for name, part in self.model.named_children()
                if not any(p.requires_grad for p in part.parameters()))
        self.activations = kept / _SAMPLES
        self.madds = 3 * self.forward - 2 * frozen
        # Bytes grow linearly with the batch, operators not at all.
        few = min(self.batch_size, 2)
        self._count_step(few)  # the first step creates the optimizer's state
        operators, moved = self._count_step(few)
        if few < self.batch_size:
            more = self._count_step(2 * few)[1]
            moved += (self.batch_size - few) * (more - moved) / few
        self.work = Work(self.madds * self.batch_size, moved, operators)

    def _count_step(self, size: int) -> tuple[int, float]:
        """Count operators and their bytes, with the same random numbers."""
        set_random_seed(0)
        batch, *_ = self.batches(size)
        with operator_counter() as found:
            loss, _ = self.model.parse_losses(self._losses(batch))
            self.optimizer.update_params(loss)
        return found.total(), found.moved

    def step_seconds(self, size: int, repeats: int = 3) -> float:
        """Measure the mean time of a training step after the first."""
        batch, *_ = self.batches(size)

        def step() -> None:
            log = self.model.train_step(batch, self.optimizer)
            log['loss'].item()  # waits for a GPU

        step()
        return timeit(step, number=repeats) / repeats

    def computed(self, accelerator: str) -> tuple[float, float, str]:
        """Compute hours and images per second, without input.

        Returns:
            tuple[float, float, str]: Also the kind of work that takes them.
        """
        seconds = times(self.work, accelerator, self.amp)
        bound = max(seconds, key=seconds.get)
        rate = self.gpus * self.batch_size / seconds[bound]
        return self.seen / rate / 3600, rate, bound

    def memory(self) -> dict[str, float]:
        """Return bytes by use, of the optimizer as after the last step."""
        weights = list(self.model.parameters())
        states = self.optimizer.optimizer.state.values()
        return dict(
            parameters=sum(p.nbytes for p in weights),
            gradients=sum(p.nbytes for p in weights if p.requires_grad),
            optimizer=sum(value.nbytes for state in states for value in
                          state.values() if isinstance(value, Tensor)),
            activations=self.batch_size * self.activations)


def _update_together(wrapper: OptimWrapper) -> None:
    """Update all weights by few operators, as PyTorch does on a GPU."""
    for group in wrapper.optimizer.param_groups:
        if 'foreach' in group and not group.get('fused'):
            group['foreach'] = True
    if wrapper.clip_grad_kwargs:
        wrapper.clip_grad_kwargs['foreach'] = True


def _find_data(cfg: Config, images: int | None
               ) -> tuple[int, str, Sequence | None]:
    """Return the number of training images, its source, and any data."""
    if images:
        return images, 'as given', None
    settings = cfg.train_dataloader.dataset
    try:
        dataset = DATASETS.build(settings)
        return len(dataset), 'counted', dataset
    except (FileNotFoundError, UserError) as error:
        for name, number in _ELSEWHERE.items():
            if name in f'{type_name(settings)} {settings.get("ann_file")}':
                return number, f'{name}, not on this disk', None
        raise UserError(f'{error}: give the number of training images with '
                        '--images N') from error


def _draw(cfg: Config, file: str) -> Callable[[int], Any]:
    """Draw a JPEG file as large as a photograph; return what loads it.

    It has 500x375 pixels; for mmdet 640x480 and seven objects, as in COCO.
    With 4.9 bits a pixel, about as in ImageNet, it takes as long to load as
    a photograph with as many.
    """
    pipeline = Compose(dataset_settings(cfg.train_dataloader).pipeline)
    width, height = (640, 480) if cfg.default_scope == 'mmdet' else (500, 375)
    noise = np.random.default_rng(0).normal(
        128, 40, (height // 3, width // 3, 3)).clip(0, 255)
    cv2.imwrite(file, cv2.resize(noise.astype(np.uint8), (width, height)))
    objects = [
        dict(bbox=[x, x, x + 200, x + 200], bbox_label=0, ignore_flag=0,
             mask=[[x, x, x + 200, x, x + 200, x + 200, x, x + 200]])
        for x in range(0, 280, 40)]
    sample = dict(img_path=file, img_id=0, sample_idx=0, gt_label=0,
                  height=height, width=width, instances=objects)
    return lambda index: pipeline(copy.deepcopy(sample))
