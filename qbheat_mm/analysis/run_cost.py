# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The cost of a run: measured on this machine, computed for others."""
import copy
import os.path as osp
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from timeit import default_timer, timeit
from typing import Any

import cv2
import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import Compose, default_collate, pseudo_collate
from mmengine.optim import build_optim_wrapper
from mmengine.registry import DATASETS, MODELS, DefaultScope
from mmengine.runner import set_random_seed
from torch import Tensor, nn

from ..engine.auto_scale_runner import use_float32
from ..errors import UserError
from ..utils.complexity import flop_counter, kept_bytes
from ..utils.settings import dataset_settings, type_name

#: Dense TFLOP/s in fp16 or bf16 and in fp32, from the data sheets (SXM).
ACCELERATORS = dict(
    t4=(65, 8.1), v100=(125, 15.7), a100=(312, 19.5), h100=(989, 67),
    rtx3090=(71, 35.6), rtx4090=(165, 82.6))
#: Share of the peak rate in training, with depthwise convolutions or without:
#: timm's published 1,459 and 1,054 images/s of EfficientNet-B0 and DeiT-S, in
#: mixed precision on an RTX 3090.
UTILIZATION = dict(depthwise=.05, dense=.41)
# Images of ImageNet-1K, and of COCO with objects.
_ELSEWHERE = dict(ImageNet=1_281_167, train2017=117_266)
_SAMPLES = 8


def count_steps(cfg: Mapping, images: int, processes: int) -> int:
    """Count the steps of a run, of processes with the config's batch each."""
    loader, loop = cfg['train_dataloader'], cfg['train_cfg']
    if loop.get('max_epochs') is None:
        return loop['max_iters']
    share = -(-images // processes)  # the sampler repeats some images
    batch = loader['batch_size']
    epoch = share // batch if loader.get('drop_last') else -(-share // batch)
    if not epoch:
        raise UserError(f'{images} images for {processes} process(es) fill '
                        f'no batch of train_dataloader.batch_size={batch}')
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
        input_seconds (float): Time to load an image in one thread.
        forward (float): Multiply-adds per image of a forward pass.
        madds (dict[str, float]): Multiply-adds per image of a training step,
            by the keys of ``UTILIZATION``.
        activations (float): Bytes per image that autograd keeps.

    Raises:
        UserError: If the number of images is unknown.
    """

    def __init__(self, cfg: Config, device: str, gpus: int,
                 images: int | None = None) -> None:
        self.cfg, self.device, self.gpus = cfg, device, gpus
        self.batch_size = cfg.train_dataloader.batch_size
        self.amp = type_name(cfg.optim_wrapper) == 'AmpOptimWrapper'
        with DefaultScope.overwrite_default_scope(cfg.default_scope):
            self.images, self.source, dataset = _find_data(cfg, images)
            self.drawn = dataset is None
            self.steps = count_steps(cfg, self.images, gpus)
            self.seen = self.steps * self.batch_size * gpus
            with tempfile.TemporaryDirectory() as folder:
                self._load(_draw(cfg, osp.join(folder, 'drawn.jpg'))
                           if self.drawn else dataset.__getitem__)
            self._build()
        self._count()

    def _load(self, load: Callable[[int], Any]) -> None:
        threads = cv2.getNumThreads()
        cv2.setNumThreads(1)
        set_random_seed(0)
        load(0)  # the first takes longer
        start = default_timer()
        self.samples = [load(i * self.images // _SAMPLES)
                        for i in range(_SAMPLES)]
        self.input_seconds = (default_timer() - start) / _SAMPLES
        cv2.setNumThreads(threads)

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
        """Count the forward pass; the backward pass of trained parts costs 2x.

        PyTorch counts depthwise convolutions as dense ones backward.
        """
        kept, madds = 0, Counter()
        for batch in self.batches(min(self.batch_size, _SAMPLES)):
            with flop_counter() as counter:
                kept += kept_bytes(self.model, partial(self._losses, batch))
            for name, found in counter.get_flop_counts().items():
                madds[name] += sum(found.values()) / 2 / _SAMPLES
        self.activations = kept / _SAMPLES
        self.forward = madds['Global']
        self.madds = dict(depthwise=0, dense=3 * self.forward)
        for name, part in self.model.named_children():
            n = madds[f'{type(self.model).__name__}.{name}']
            trained = any(p.requires_grad for p in part.parameters())
            kind = 'depthwise' if any(
                isinstance(m, nn.Conv2d) and 1 < m.groups == m.in_channels
                for m in part.modules()) else 'dense'
            self.madds['dense'] -= 3 * n
            self.madds[kind] += 3 * n if trained else n

    def step_seconds(self, size: int, repeats: int = 3) -> float:
        """Measure the mean time of a training step after the first."""
        batch, *_ = self.batches(size)

        def step() -> None:
            log = self.model.train_step(batch, self.optimizer)
            log['loss'].item()  # waits for a GPU

        step()
        return timeit(step, number=repeats) / repeats

    def computed(self, accelerator: str) -> tuple[float, float]:
        """Compute hours and images per second, without input."""
        half, single = ACCELERATORS[accelerator]
        # Depthwise convolutions are memory-bound: float32 takes twice as long.
        peak = dict(depthwise=half if self.amp else half / 2,
                    dense=half if self.amp else single)
        rate = self.gpus / sum(2 * n / (1e12 * peak[kind] * UTILIZATION[kind])
                               for kind, n in self.madds.items())
        return self.seen / rate / 3600, rate

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
