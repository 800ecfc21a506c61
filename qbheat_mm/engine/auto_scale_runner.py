# Copyright (c) QB-Heat MM authors. All rights reserved.
"""mmengine's runner, adapting recipes to small data and machines."""
import copy
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain

from joblib import cpu_count
from mmengine.config import Config
from mmengine.dataset import InfiniteSampler
from mmengine.device import get_device
from mmengine.logging import MMLogger
from mmengine.model import is_model_wrapper
from mmengine.optim import DefaultOptimWrapperConstructor, OptimWrapper
from mmengine.registry import OPTIM_WRAPPER_CONSTRUCTORS, RUNNERS
from mmengine.runner import BaseLoop, EpochBasedTrainLoop, Runner
from mmengine.runner.checkpoint import load_state_dict
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

from ..errors import UserError
from ..trained.checkpoint import Checkpoint
from ..utils.modules import unwrap
from ..utils.settings import loader_settings, type_name
from .check_classes import count_classes
from .console import shorten_console
from .random_state import SeededBatchSampler
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
        if isinstance(train_dataloader, Mapping):
            # For build_dataloader: other loaders may have equal settings.
            train_dataloader = {**train_dataloader, 'for_training': True}
        # Batch size of a process, as set and as trained with.
        self._batch_sizes = (1, 1)
        super().__init__(*args, train_dataloader=train_dataloader, **kwargs)

    @classmethod
    def from_cfg(cls, cfg: Config) -> 'AutoScaleRunner':
        """Build the runner of a config with its encoder and classes."""
        cfg = copy.deepcopy(cfg)
        if cfg.get('encoder'):
            # Importing it for nothing would cost each import of the package.
            from ..trained.use_encoder import use_encoder
            use_encoder(cfg)
        if cfg.get('count_classes'):
            count_classes(cfg)
        return super().from_cfg(cfg)

    def build_logger(self, *args, **kwargs) -> MMLogger:
        """Build a logger whose long reports go to the log file only."""
        logger = super().build_logger(*args, **kwargs)
        shorten_console(logger)
        logger.info(f'settings and full log: {self.log_dir}')
        return logger

    def train(self) -> nn.Module:
        """Train, or resume from the newest readable checkpoint."""
        if self._resume and self._load_from is None:
            self._load_from = newest_readable(self.work_dir)
        return super().train()

    def load_checkpoint(self,
                        filename: str,
                        map_location='cpu',
                        strict: bool = False,
                        revise_keys: Sequence[tuple[str, str]] = ()) -> dict:
        """Load a checkpoint; see :meth:`Checkpoint.read` for its errors."""
        trained = Checkpoint.read(filename, map_location)
        checkpoint = trained.content
        # mmengine would execute this text when it resumes.
        (checkpoint.get('meta') or {}).pop('config', None)
        state_dict = trained.weights
        for pattern, replacement in revise_keys:
            state_dict = {re.sub(pattern, replacement, name): value
                          for name, value in state_dict.items()}
        checkpoint['state_dict'] = state_dict
        self._load_from = self._load_from or filename
        self.call_hook('after_load_checkpoint', checkpoint=checkpoint)
        load_state_dict(unwrap(self.model), checkpoint['state_dict'], strict,
                        self.logger)
        self._has_loaded = True
        self.logger.info(f'Load checkpoint from {filename}')
        return checkpoint

    def build_dataloader(self, dataloader: DataLoader | dict, *args,
                         **kwargs) -> DataLoader:
        """Build a loader; for training, with seeded samples and full batches.

        Starts at most one worker for each core available to this process,
        given its affinity and its container's limit. ``num_workers=0`` alone
        turns workers off.
        """
        if not isinstance(dataloader, Mapping):
            return super().build_dataloader(dataloader, *args, **kwargs)
        settings = dict(dataloader)
        given, cores = settings.get('num_workers') or 0, cpu_count()
        if given > cores:
            self.logger.info(f'num_workers: {given} -> {cores} (cores '
                             'available to this process)')
            settings['num_workers'] = cores
        batches = settings.get('batch_sampler')
        seeds = settings.pop('for_training', False) and (
            batches is None or isinstance(batches, Mapping))
        if seeds:
            settings['batch_sampler'] = dict(
                type=SeededBatchSampler, batches=batches, seed=self.seed,
                drop_last=settings.pop('drop_last', False),
                fit=batch_fitter(unwrap(self.model), self.world_size))
        loader = super().build_dataloader(loader_settings(settings), *args,
                                          **kwargs)
        if seeds:
            self._report_batch(loader, settings['batch_size'])
            share_caches(loader.dataset)
        return loader

    def build_train_loop(self, loop: BaseLoop | dict) -> BaseLoop:
        """Build the loop; raise UserError if there is no step to train."""
        built = super().build_train_loop(loop)
        if not len(built.dataloader) or built.max_iters < 1:
            raise UserError(
                'the run has no step: '
                f'train_cfg.max_epochs={built.max_epochs}, '
                f'{len(built.dataloader)} batches an epoch')
        return built

    def _report_batch(self, loader: DataLoader, given: int) -> None:
        fitted = loader.batch_sampler.batch_size
        self._batch_sizes = given, fitted
        if fitted < given:
            self.logger.warning(
                f'{len(loader.dataset)} training images for '
                f'{self.world_size} process(es): '
                f'train_dataloader.batch_size={fitted}')

    def build_optim_wrapper(self, optim_wrapper) -> OptimWrapper:
        """Build the optimizer, in float32 if there is no GPU."""
        if isinstance(optim_wrapper, dict) and type_name(
                optim_wrapper) == 'AmpOptimWrapper' and (
                    get_device() in ('cpu', 'mps')):
            optim_wrapper = copy.deepcopy(optim_wrapper)
            use_float32(optim_wrapper)
            self.logger.info('no GPU for mixed precision: training in '
                             'float32')
        return super().build_optim_wrapper(optim_wrapper)

    def scale_lr(self, optim_wrapper: OptimWrapper,
                 auto_scale_lr: dict | None = None) -> None:
        """Scale the learning rate by the images of a step.

        Accumulated ones count, if ``auto_scale_lr`` is on. A lowered batch
        size always lowers the rate.
        """
        scaling, (given, fitted) = dict(auto_scale_lr or {}), self._batch_sizes
        # mmengine assumes the given batch size.
        if scaling.get('enable'):
            count = (self.cfg.get('optim_wrapper') or {}).get(
                'accumulative_counts', 1)
            scaling['base_batch_size'] *= given / (fitted * count)
        elif fitted < given:
            scaling = dict(enable=True, base_batch_size=(
                given * self.world_size * given / fitted))
        before = _learning_rate(optim_wrapper)
        super().scale_lr(optim_wrapper, scaling)
        after = _learning_rate(optim_wrapper)
        if after != before:
            self.logger.info(f'learning rate: {before:g} -> {after:g}')

    def build_param_scheduler(self, scheduler) -> list:
        """Build schedulers that are no longer than the run."""
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

        Dynamo breaks at the optimizer, which gains nothing from it. mmengine
        has no public method for this.
        """
        settings = self.cfg.get('compile')
        if settings:
            model = (self.model.module if is_model_wrapper(self.model)
                     else self.model)
            model.compile(**({} if settings is True else settings))
            self.logger.info('the model is compiled: the first steps take '
                             'minutes')


def share_caches(dataset: Dataset) -> None:
    """Let the training processes of a machine share their image caches."""
    pipeline = getattr(dataset, 'pipeline', None)
    for transform in getattr(pipeline, 'transforms', ()):
        if getattr(transform, 'cache', None) is not None:
            transform.cache = transform.cache.shared()


def _learning_rate(optim_wrapper: OptimWrapper) -> float:
    """The largest rate of all parameters."""
    return max(chain(*(rates for name, rates in optim_wrapper.get_lr().items()
                       if not name.endswith('base_lr'))))


def batch_fitter(model: nn.Module,
                 processes: int) -> Callable[[Sampler, int], int]:
    """A function of a sampler and a batch size that lowers the latter."""
    # Classifiers and pre-training have batch norm on pooled features.
    preprocessor = type(getattr(model, 'data_preprocessor', None))
    return partial(
        fitting_batch, processes=processes,
        minimum=1 if preprocessor.__name__.startswith('Det') else 2,
        queue=getattr(model, 'queue_len', 0))


@OPTIM_WRAPPER_CONSTRUCTORS.register_module()
class GroupedOptimWrapperConstructor(DefaultOptimWrapperConstructor):
    """Build an optimizer with one group for all parameters of equal settings.

    mmengine's constructor makes a group for each parameter, and fused
    optimizers launch a kernel for each group. Takes its ``paramwise_cfg``,
    or with ``layer_decay_rate`` that of mmpretrain's
    ``LearningRateDecayOptimWrapperConstructor``.
    """

    def add_params(self, params: list[dict], module: nn.Module,
                   **kwargs) -> None:
        """Add the groups of a model to ``params``."""
        constructor = DefaultOptimWrapperConstructor
        if 'layer_decay_rate' in self.paramwise_cfg:
            # Importing it takes seconds.
            constructor = OPTIM_WRAPPER_CONSTRUCTORS.get(
                'mmpretrain.LearningRateDecayOptimWrapperConstructor')
        single: list[dict] = []
        constructor(dict(self.optim_wrapper_cfg, optimizer=self.optimizer_cfg),
                    self.paramwise_cfg).add_params(single, module, **kwargs)
        params += _merge(single)


def _merge(groups: list[dict]) -> list[dict]:
    """Merge groups of one parameter, in the order of their first one."""
    if len({group['params'][0] for group in groups}) < len(groups):
        return groups  # PyTorch refuses a parameter in two groups
    merged: list[dict] = []
    known: list[dict] = []
    for group in groups:
        settings = {name: value for name, value in group.items()
                    if name not in ('params', 'param_name')}
        if settings not in known:
            known.append(settings)
            merged.append(dict(settings, params=[]))
        merged[known.index(settings)]['params'] += group['params']
    return merged


def fitting_batch(sampler: Sampler, batch: int, processes: int,
                  minimum: int = 1, queue: int = 0) -> int:
    """Lower a process's batch size to what the images of its sampler fill.

    MoCo's ``queue`` must be a multiple of the images of all processes in a
    step; 0 stands for none.

    Raises:
        UserError: If a process has fewer than ``minimum`` images, or no
            batch size fits ``queue``.
    """
    share = len(sampler)
    if share < minimum:
        raise UserError(
            f'each of {processes} process(es) gets {share} images of '
            f'train_dataloader.dataset and needs at least {minimum}')
    if share < batch and not isinstance(sampler, InfiniteSampler):
        batch = share
        while queue and batch > minimum and queue % (batch * processes):
            batch -= 1
    if queue and queue % (batch * processes):
        raise UserError(
            f'model.queue_len={queue} is not a multiple of the '
            f'{batch * processes} images of a step '
            f'(train_dataloader.batch_size={batch})')
    return batch


def use_float32(wrapper: dict) -> None:
    """Turn the settings of an ``AmpOptimWrapper`` into float32's."""
    wrapper['type'] = 'OptimWrapper'
    for setting in ('loss_scale', 'dtype', 'use_fsdp'):
        wrapper.pop(setting, None)
