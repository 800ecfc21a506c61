# Copyright (c) QB-Heat MM authors. All rights reserved.
"""mmengine's runner, on machines and data sets of any size."""
import copy
import os.path as osp
from collections.abc import Mapping, Sequence

from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import master_only
from mmengine.optim import OptimWrapper
from mmengine.registry import RUNNERS
from mmengine.runner import (
    EpochBasedTrainLoop,
    IterBasedTrainLoop,
    Runner,
)
from torch import nn
from torch.utils.data import DataLoader

from ...errors import UserError
from ...utils.loaders import loader_settings
from ...utils.settings import type_name
from ..wrapping import unwrap
from .classes import count_classes
from .gpu_decoding import fit_decoding
from .loaders import fitting_batch
from .schedules import fit_schedulers

#: Devices without mixed precision in mmengine.
_FLOAT32_ONLY = ('cpu', 'mps')


@RUNNERS.register_module()
class AutoScaleRunner(Runner):
    """A runner that fits a recipe to the machine and to the data.

    Recipes are written for many images and GPUs. Before it trains, this
    runner

    - replaces mixed precision by float32 where there is no GPU;
    - lowers a batch that the data set does not fill, and the learning rate
      with it by the linear rule;
    - shortens warm-ups and milestones that lie behind the end of the run;
    - loads without workers where ``num_workers=0`` says so;
    - counts the folders of classes, where ``count_classes=True`` asks for it;
    - counts accumulated batches where it scales the learning rate;
    - decodes images of pre-training on the GPU, where ``gpu_decode=True``
      asks for it and the GPU can;

    and says so in one line each. A recipe that fits is left as it is.
    mmengine, on its own, would stop, or end without a single step and with a
    checkpoint of random weights.

    It is chosen by ``runner_type='AutoScaleRunner'``, which the tools of mmdet
    and mmpretrain respect; ``runner_type='Runner'`` is mmengine's own.
    """

    @classmethod
    def from_cfg(cls, cfg: Config) -> 'AutoScaleRunner':
        """Count classes and decode as the configuration says; build."""
        asked = [fit for name, fit in (('count_classes', count_classes),
                                       ('gpu_decode', fit_decoding))
                 if cfg.get(name)]
        if asked:
            cfg = copy.deepcopy(cfg)
        lines = [fit(cfg) for fit in asked]
        runner = super().from_cfg(cfg)
        for line in lines:
            runner.logger.info(line)
        return runner

    def train(self) -> nn.Module:
        """Fit the recipe and train.

        Returns:
            nn.Module: The trained model.

        Raises:
            UserError: If there are too few images, or a scheduler begins
                after the end of the run.
        """
        super().dump_config()
        if isinstance(self._train_loop, dict):
            self._fit_precision()
            self._fit_batch()
            self._require_steps()
            self._fit_schedule()
        return super().train()

    @master_only
    def dump_config(self) -> None:
        """Write the configuration, unless a run has written its own there.

        mmengine's tests, too, write theirs into the work folder, over that
        of the training which exports and inferencers read; ours is replaced
        by a training only.
        """
        name = osp.basename(self.cfg.filename or f'{self.timestamp}.py')
        if not osp.exists(osp.join(self.work_dir, name)):
            super().dump_config()

    @staticmethod
    def build_dataloader(dataloader: DataLoader | dict,
                         seed: int | None = None,
                         diff_rank_seed: bool = False) -> DataLoader:
        """As mmengine's, also of settings that keep workers and have none."""
        if isinstance(dataloader, Mapping):
            dataloader = loader_settings(dataloader)
        return Runner.build_dataloader(dataloader, seed, diff_rank_seed)

    def scale_lr(self, optim_wrapper: OptimWrapper,
                 auto_scale_lr: dict | None = None) -> None:
        """As mmengine's, by the images of a step and not of a batch."""
        counts = getattr(optim_wrapper, '_accumulative_counts', 1)
        if (auto_scale_lr or {}).get('enable') and counts > 1:
            base = auto_scale_lr['base_batch_size']
            self.logger.info(
                f'a step takes {counts} batches (accumulative_counts): the '
                f'learning rate of {base} images a step is that of '
                f'{base / counts:g} a batch')
            auto_scale_lr = dict(auto_scale_lr, base_batch_size=base / counts)
        super().scale_lr(optim_wrapper, auto_scale_lr)

    def _maybe_compile(self, target: str) -> None:
        """Compile the model where the configuration says ``compile``.

        mmengine compiles its whole step, ``target``. Dynamo stops at the
        optimizer in it, which gains nothing from being compiled.
        """
        settings = self.cfg.get('compile')
        if settings:
            self.model.compile(**({} if settings is True else settings))
            self.logger.info('the model is compiled: the first steps, and '
                             'the first of each new size, take minutes')

    def _fit_precision(self) -> None:
        wrapper = self.optim_wrapper
        if not isinstance(wrapper, dict) or get_device() not in _FLOAT32_ONLY:
            return
        if type_name(wrapper) == 'AmpOptimWrapper':
            use_float32(wrapper)
            self.logger.warning('there is no GPU for mixed precision: '
                                'training goes on in float32')

    def _fit_batch(self) -> None:
        """Build the data loader, and the loop on it."""
        settings = self._train_dataloader
        if not isinstance(settings, dict) or 'batch_size' not in settings:
            return
        loader = self._build_train_loader()
        given = settings['batch_size']
        model = unwrap(self.model)
        # All but detectors may have batch norm on pooled features.
        preprocessor = type(getattr(model, 'data_preprocessor', None))
        least = 1 if preprocessor.__name__.startswith('Det') else 2
        batch = fitting_batch(loader, given, self.world_size, least,
                              getattr(model, 'queue_len', None))
        if batch != given:
            settings['batch_size'] = batch
            loader = self._build_train_loader()
            self.logger.warning(
                f'the {len(loader.dataset)} images of the training set make '
                f'no batch of {given} for {self.world_size} process(es): '
                f'train_dataloader.batch_size={batch}'
                + self._scale_lr_settings(batch / given))
        queue = getattr(model, 'queue_len', 0)
        _require_whole_steps(queue, batch, self.world_size)
        if queue >= len(loader.dataset):
            self.logger.warning(
                f'model.queue_len={queue} is no less than the '
                f'{len(loader.dataset)} images of the training set, so that '
                'an image is among its own negatives: set it lower')
        # The loop gets the loader, and mmengine's scale_lr the settings.
        self._train_dataloader = loader
        self._train_loop = self.build_train_loop(self._train_loop)
        self._train_dataloader = settings

    def _build_train_loader(self):
        return self.build_dataloader(
            self._train_dataloader,
            seed=self.seed,
            diff_rank_seed=self._randomness_cfg.get('diff_rank_seed', False))

    def _scale_lr_settings(self, ratio: float) -> str:
        """Scale learning rates by the linear rule; say which."""
        if (self.auto_scale_lr or {}).get('enable'):
            return ''  # mmengine does, and says so
        changes = []
        for optimizer in _optimizers(self.optim_wrapper):
            if isinstance(optimizer.get('lr'), int | float):
                old = optimizer['lr']
                optimizer['lr'] = old * ratio
                changes.append(f'{old:g} becomes {optimizer["lr"]:g}')
        return f'; the learning rate of {", ".join(changes)}' if changes else (
            '; the learning rate stays')

    def _require_steps(self) -> None:
        """Refuse a run that would end with the weights that it began with."""
        loop = self.train_loop
        if not len(loop.dataloader):
            raise UserError(
                f'the {len(loop.dataloader.dataset)} images of the training '
                'set make no batch: set train_dataloader.batch_size lower')
        if self.max_iters < 1:
            name = ('max_epochs' if isinstance(loop, EpochBasedTrainLoop)
                    else 'max_iters')
            raise UserError(f'train_cfg.{name}={getattr(self, name)} leaves '
                            'no step to train: set it to 1 or more')

    def _fit_schedule(self) -> None:
        loop = self.train_loop
        schedulers = self.param_schedulers
        if isinstance(schedulers, dict) and 'type' in schedulers:
            schedulers = [schedulers]
        if not isinstance(schedulers, list) or not all(
                isinstance(scheduler, dict) for scheduler in schedulers):
            return  # built already, or one list for each of several optimizers
        if isinstance(loop, IterBasedTrainLoop):
            _require_steps_of_schedules(schedulers)
            if any(scheduler.get('by_epoch', True)
                   for scheduler in schedulers):
                return  # one epoch is as long as the data there
        elif not isinstance(loop, EpochBasedTrainLoop):
            return
        fitted, changes = fit_schedulers(
            schedulers, self.max_iters, len(loop.dataloader))
        if changes:
            self.param_schedulers = fitted
            self.logger.warning(
                'the schedule is longer than the run of '
                f'{self.max_iters} steps and is shortened, in steps: '
                + ', '.join(changes))


def _require_steps_of_schedules(schedulers: Sequence[Mapping]) -> None:
    """Raise where a schedule waits for epochs that a loop does not count.

    A loop of iterations is one epoch of mmengine's: such a schedule never
    acts, or ends with the first pass over the data.
    """
    for i, scheduler in enumerate(schedulers):
        ends = any(place in scheduler for place in (
            'end', 'T_max', 'total_iters', 'milestones', 'step_size'))
        if scheduler.get('by_epoch', True) and not (
                scheduler.get('convert_to_iter_based') and ends):
            raise UserError(
                f'param_scheduler.{i} ({type_name(scheduler)}) counts epochs, '
                'and IterBasedTrainLoop has none: set its by_epoch=False, '
                'leave out convert_to_iter_based, and give its places (begin, '
                'end, milestones, T_max) in steps')


def _require_whole_steps(queue: int, batch: int, processes: int) -> None:
    """Raise unless a queue is filled by whole steps, as MoCo's must be."""
    step = batch * processes
    if queue % step:
        fitting = max(round(queue / step), 1) * step
        raise UserError(
            f'model.queue_len={queue} is no multiple of the {step} images of '
            f'a step ({processes} process{"es" * (processes > 1)} x '
            f'train_dataloader.batch_size={batch}): set --cfg-options '
            f'model.queue_len={fitting}')


def use_float32(wrapper: dict) -> None:
    """Turn the settings of an ``AmpOptimWrapper`` into float32's."""
    wrapper['type'] = 'OptimWrapper'
    for setting in ('loss_scale', 'dtype', 'use_fsdp'):
        wrapper.pop(setting, None)


def _optimizers(wrapper) -> list[dict]:
    """Settings of the optimizer, or of several."""
    if not isinstance(wrapper, dict):
        return []
    if isinstance(wrapper.get('optimizer'), dict):
        return [wrapper['optimizer']]
    return [part for value in wrapper.values() for part in _optimizers(value)]
