# Copyright (c) QB-Heat MM authors. All rights reserved.
"""mmengine's runner, adapting recipes to small data and machines."""
import copy
from collections.abc import Mapping

from joblib import cpu_count
from mmengine.config import Config
from mmengine.dataset import InfiniteSampler
from mmengine.device import get_device
from mmengine.logging import MMLogger
from mmengine.optim import OptimWrapper
from mmengine.registry import RUNNERS
from mmengine.runner import BaseLoop, EpochBasedTrainLoop, Runner
from mmengine.runner.checkpoint import load_state_dict
from torch import nn
from torch.utils.data import DataLoader

from ..errors import UserError
from ..trained.checkpoint import Checkpoint
from ..utils.modules import unwrap
from ..utils.settings import loader_settings, type_name
from .check_classes import count_classes
from .console import shorten_console
from .random_state import seeded
from .resume import newest_readable
from .schedules import fit_schedulers


@RUNNERS.register_module()
class AutoScaleRunner(Runner):
    """A runner that adapts a recipe to the machine and the data.

    Before training it

    - replaces mixed precision by float32 if there is no GPU;
    - limits workers to the available cores;
    - lowers a batch size that the data set doesn't fill, and the learning
      rate with it (linear scaling);
    - shortens warm-ups and schedules that are longer than the run;
    - counts classes, if ``count_classes=True``;

    and logs each change. Other recipes are left alone. Checkpoints are read
    without executing anything, and a run resumes from the newest readable
    one. ``runner_type='Runner'`` selects mmengine's own runner.
    """

    def __init__(self, *args, train_dataloader=None, **kwargs) -> None:
        self.train_settings = train_dataloader
        super().__init__(*args, train_dataloader=train_dataloader, **kwargs)

    @classmethod
    def from_cfg(cls, cfg: Config) -> 'AutoScaleRunner':
        """Build the runner, after counting classes if the config says so."""
        if cfg.get('count_classes'):
            cfg = copy.deepcopy(cfg)
            count_classes(cfg)
        return super().from_cfg(cfg)

    def build_logger(self, *args, **kwargs) -> MMLogger:
        """Build a logger whose long reports go to the log file only."""
        logger = super().build_logger(*args, **kwargs)
        shorten_console(logger)
        logger.info(f'settings and full log: {self.log_dir}')
        return logger

    def train(self) -> nn.Module:
        """Train, or resume from the newest readable checkpoint.

        Raises:
            UserError: If the recipe can't be adapted.
        """
        if self._resume and self._load_from is None:
            self._load_from = newest_readable(self.work_dir)
        return super().train()

    def load_checkpoint(self,
                        filename: str,
                        map_location='cpu',
                        strict: bool = False,
                        revise_keys: list | None = None) -> dict:
        """Load a checkpoint without executing anything in it.

        Raises:
            UserError: If it is damaged or contains objects that could run
                code.
        """
        trained = Checkpoint.read(filename, map_location)
        checkpoint = trained.content
        # mmengine would execute this text when it resumes.
        (checkpoint.get('meta') or {}).pop('config', None)
        self._load_from = self._load_from or filename
        self.call_hook('after_load_checkpoint', checkpoint=checkpoint)
        load_state_dict(unwrap(self.model), trained.weights, strict,
                        self.logger)
        self._has_loaded = True
        self.logger.info(f'Load checkpoint from {filename}')
        return checkpoint

    def build_dataloader(self, dataloader: DataLoader | dict, *args,
                         **kwargs) -> DataLoader:
        """Build a loader, with seeded samples for training.

        Starts at most one worker for each core available to this process,
        given its affinity and its container's limit. ``num_workers=0`` alone
        turns workers off.
        """
        if isinstance(dataloader, Mapping):
            if dataloader == self.train_settings:
                dataloader = seeded(dataloader, self.seed)
            dataloader = loader_settings(self._limit_workers(dataloader))
        return super().build_dataloader(dataloader, *args, **kwargs)

    def _limit_workers(self, loader: Mapping) -> Mapping:
        given, cores = loader.get('num_workers') or 0, cpu_count()
        if given <= cores:
            return loader
        self.logger.info(f'num_workers: {given} -> {cores} (cores available '
                         'to this process)')
        return {**loader, 'num_workers': cores}

    def build_train_loop(self, loop: BaseLoop | dict) -> BaseLoop:
        """Build the loop with a batch size that the data set fills.

        Raises:
            UserError: If there are too few images, or no step to train.
        """
        built = super().build_train_loop(loop)
        settings = self.train_settings
        if isinstance(loop, dict) and isinstance(settings, dict) and (
                'batch_size' in settings):
            given = settings['batch_size']
            settings['batch_size'] = self._fit_batch(built.dataloader, given)
            if settings['batch_size'] < given:
                built = super().build_train_loop(loop)
        if not len(built.dataloader) or built.max_iters < 1:
            raise UserError(
                'the run has no step: '
                f'train_cfg.max_epochs={built.max_epochs}, '
                f'{len(built.dataloader)} batches an epoch')
        return built

    def _fit_batch(self, loader: DataLoader, batch: int) -> int:
        """The batch size of a process; scales the learning rate with it."""
        model = unwrap(self.model)
        # Classifiers and pre-training have batch norm on pooled features.
        preprocessor = type(getattr(model, 'data_preprocessor', None))
        least = 1 if preprocessor.__name__.startswith('Det') else 2
        queue = getattr(model, 'queue_len', 0)
        fitted = fitting_batch(loader, batch, self.world_size, least, queue)
        step = fitted * self.world_size
        if queue % step:
            raise UserError(
                f'model.queue_len={queue} is not a multiple of the {step} '
                f'images of a step (train_dataloader.batch_size={fitted})')
        if fitted < batch:
            self.logger.warning(
                f'{len(loader.dataset)} training images for '
                f'{self.world_size} process(es): '
                f'train_dataloader.batch_size={fitted}'
                f'{self._lower_lr(fitted / batch)}')
        return fitted

    def _lower_lr(self, ratio: float) -> str:
        """Scale the learning rate; returns the change in words."""
        optimizer = (self.optim_wrapper.get('optimizer') if isinstance(
            self.optim_wrapper, dict) else None) or {}
        # auto_scale_lr uses the lowered batch size.
        if 'lr' not in optimizer or (self.auto_scale_lr or {}).get('enable'):
            return ''
        given = optimizer['lr']
        optimizer['lr'] = given * ratio
        return f', learning rate {given:g} -> {optimizer["lr"]:g}'

    def build_optim_wrapper(self, optim_wrapper) -> OptimWrapper:
        """Build the optimizer, in float32 if there is no GPU."""
        if isinstance(optim_wrapper, dict) and type_name(
                optim_wrapper) == 'AmpOptimWrapper' and (
                    get_device() in ('cpu', 'mps')):
            use_float32(optim_wrapper)
            self.logger.info('no GPU for mixed precision: training in '
                             'float32')
        return super().build_optim_wrapper(optim_wrapper)

    def scale_lr(self, optim_wrapper: OptimWrapper,
                 auto_scale_lr: dict | None = None) -> None:
        """Scale the rate by the images of a step, accumulated ones included.
        """
        count = (self.cfg.get('optim_wrapper') or {}).get(
            'accumulative_counts', 1)
        if (auto_scale_lr or {}).get('enable'):
            auto_scale_lr = dict(
                auto_scale_lr,
                base_batch_size=auto_scale_lr['base_batch_size'] / count)
        super().scale_lr(optim_wrapper, auto_scale_lr)

    def build_param_scheduler(self, scheduler) -> list:
        """Build schedulers that are no longer than the run.

        Raises:
            UserError: If one counts epochs in a run without epochs.
        """
        given = [scheduler] if isinstance(scheduler, dict) and (
            'type' in scheduler) else scheduler
        if isinstance(given, list) and all(
                isinstance(part, dict) for part in given):
            # mmengine counts one epoch: the rate would never change.
            if not isinstance(self.train_loop, EpochBasedTrainLoop) and any(
                    part.get('by_epoch', True) for part in given):
                raise UserError('param_scheduler counts epochs, and '
                                'IterBasedTrainLoop has none: set '
                                'by_epoch=False and its length in steps')
            scheduler = fit_schedulers(
                given, self.max_iters, len(self.train_dataloader))
            if scheduler != given:
                self.logger.info(
                    f'schedule shortened to the {self.max_iters} steps of '
                    f'the run: {scheduler}')
        return super().build_param_scheduler(scheduler)

    def _maybe_compile(self, target: str) -> None:
        """Compile the model instead of mmengine's whole step.

        Dynamo breaks at the optimizer, which gains nothing from it.
        """
        settings = self.cfg.get('compile')
        if settings:
            self.model.compile(**({} if settings is True else settings))
            self.logger.info('the model is compiled: the first steps take '
                             'minutes')


def fitting_batch(loader: DataLoader, batch: int, processes: int,
                  least: int = 1, queue: int = 0) -> int:
    """The batch size that the images of one process fill.

    Args:
        loader (DataLoader): Of one process.
        batch (int): Batch size of one process, as set.
        processes (int): Number of processes.
        least (int): Minimum batch size. Defaults to 1.
        queue (int): Multiple of the images of all processes in a step
            (MoCo); 0 for none. Defaults to 0.

    Returns:
        int: ``batch`` or less.

    Raises:
        UserError: If a process has fewer than ``least`` images.
    """
    # With a batch_sampler, torch's loader.sampler runs over all images.
    sampler = getattr(loader.batch_sampler, 'sampler', loader.sampler)
    images = len(loader.dataset)
    share = batch if isinstance(sampler, InfiniteSampler) and (
        images) else len(sampler)
    if share < least:
        raise UserError(
            f'train_dataloader.dataset has {images} images for {processes} '
            f'process(es), and each needs at least {least}')
    if share >= batch:
        return batch
    while queue and share > least and queue % (share * processes):
        share -= 1
    return share


def use_float32(wrapper: dict) -> None:
    """Turn the settings of an ``AmpOptimWrapper`` into float32's."""
    wrapper['type'] = 'OptimWrapper'
    for setting in ('loss_scale', 'dtype', 'use_fsdp'):
        wrapper.pop(setting, None)
