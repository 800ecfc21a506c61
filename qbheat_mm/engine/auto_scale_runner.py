# Copyright (c) QB-Heat MM authors. All rights reserved.
"""mmengine's runner, adapting recipes to small data and machines."""
import copy
import re
from collections.abc import Mapping, Sequence

from joblib import cpu_count
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.logging import MMLogger
from mmengine.optim import OptimWrapper
from mmengine.registry import RUNNERS
from mmengine.runner import BaseLoop, EpochBasedTrainLoop, Runner
from mmengine.runner.checkpoint import load_state_dict
from torch import nn
from torch.utils.data import DataLoader, Dataset

from ..errors import UserError
from ..trained.checkpoint import Checkpoint
from ..utils.modules import unwrap
from ..utils.settings import loader_settings, type_name
from .batch_size import batch_fitter
from .console import set_console_level, shorten_console
from .memory import keep_freed_memory, warn_of_little_shared_memory
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

    #: The batch size of a process as it was set, if it was lowered.
    _given_batch_size = 0

    def __init__(self, *args, **kwargs) -> None:
        #: Values of ``num_workers`` already reported as too high.
        self._lowered_workers: set[int] = set()
        super().__init__(*args, **kwargs)
        set_console_level(self.logger, self.cfg.get('log_level') or 'INFO')

    @classmethod
    def from_cfg(cls, cfg: Config) -> 'AutoScaleRunner':
        """Build the runner of a config with its encoder, teacher, classes."""
        cfg = copy.deepcopy(cfg)
        # Imports of the package need not load it.
        from ..config.complete import complete
        complete(cfg, count=True)
        return super().from_cfg(cfg)

    def build_logger(self, *args, **kwargs) -> MMLogger:
        """Build a logger whose long reports go to the log file only."""
        logger = super().build_logger(*args, **kwargs)
        shorten_console(logger)
        logger.info(f'settings and full log: {self.log_dir}')
        # mmengine reports on the machine, the config and the hooks while it
        # builds the runner.
        set_console_level(logger, 'WARNING')
        return logger

    def dump_config(self) -> None:
        """Leave the work folder's config to :meth:`train`.

        Tests share that folder, and have other settings.
        """

    def train(self) -> nn.Module:
        """Train, or resume from the newest readable checkpoint."""
        super().dump_config()
        if get_device() == 'cpu':
            keep_freed_memory()
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
        """Build a loader with at most one worker for each available core.

        Available are the cores of this process, given its affinity and its
        container's limit. ``num_workers=0`` alone turns workers off.
        """
        if not isinstance(dataloader, Mapping):
            return super().build_dataloader(dataloader, *args, **kwargs)
        settings = dict(dataloader)
        given, cores = settings.get('num_workers') or 0, cpu_count()
        if given > cores:
            if given not in self._lowered_workers:
                self.logger.info(f'num_workers: {given} -> {cores} (cores '
                                 'available to this process)')
            self._lowered_workers.add(given)
            settings['num_workers'] = cores
        if given:
            warn_of_little_shared_memory(self.logger)
        return super().build_dataloader(loader_settings(settings), *args,
                                        **kwargs)

    def build_train_loop(self, loop: BaseLoop | dict) -> BaseLoop:
        """Build the loop, with seeded samples and full batches.

        Raises:
            UserError: If there is no step to train.
        """
        settings = self._train_dataloader
        if isinstance(settings, Mapping):
            self._train_dataloader = self._with_seeded_batches(settings)
        built = super().build_train_loop(loop)
        batches = getattr(built.dataloader, 'batch_sampler', None)
        if isinstance(batches, SeededBatchSampler):
            self._report_batch_size(batches, built.dataloader.dataset)
            share_caches(built.dataloader.dataset)
        if not len(built.dataloader) or built.max_iters < 1:
            raise UserError(
                'there is nothing to train: '
                f'train_cfg.max_epochs={built.max_epochs}, '
                f'{len(built.dataloader)} batches an epoch')
        return built

    def _with_seeded_batches(self, settings: Mapping) -> dict:
        """Let a seeded batch sampler wrap that of a loader's settings."""
        settings = dict(settings)
        batches = settings.get('batch_sampler')
        if batches is None or isinstance(batches, Mapping):
            settings['batch_sampler'] = dict(
                type=SeededBatchSampler, batches=batches, seed=self.seed,
                drop_last=settings.pop('drop_last', False),
                fit=batch_fitter(unwrap(self.model), self.world_size))
        return settings

    def _report_batch_size(self, batches: SeededBatchSampler,
                           dataset: Dataset) -> None:
        fitted = batches.batch_size
        if fitted < batches.given_batch_size:
            self._given_batch_size = batches.given_batch_size
            self._train_dataloader['batch_size'] = fitted  # for scale_lr
            self.logger.warning(
                f'{len(dataset)} training images for '
                f'{self.world_size} process(es): '
                f'train_dataloader.batch_size: {batches.given_batch_size} -> '
                f'{fitted}')

    def build_optim_wrapper(self, optim_wrapper) -> OptimWrapper:
        """Build the optimizer, in float32 if there is no GPU."""
        if (isinstance(optim_wrapper, dict)
                and type_name(optim_wrapper) == 'AmpOptimWrapper'
                and get_device() in ('cpu', 'mps')):
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
        scaling = dict(auto_scale_lr or {})
        if scaling.get('enable'):
            optimizer = self.cfg.get('optim_wrapper') or {}
            scaling['base_batch_size'] /= optimizer.get(
                'accumulative_counts', 1)
        elif self._given_batch_size:
            scaling = dict(enable=True, base_batch_size=(
                self._given_batch_size * self.world_size))
        super().scale_lr(optim_wrapper, scaling)

    def build_param_scheduler(self, scheduler) -> list:
        """Build schedulers that are no longer than the run."""
        if isinstance(scheduler, dict) and 'type' in scheduler:
            scheduler = [scheduler]
        if isinstance(scheduler, list) and all(
                isinstance(part, dict) for part in scheduler):
            scheduler = self._fitting_schedulers(scheduler)
        return super().build_param_scheduler(scheduler)

    def _fitting_schedulers(self, given: list[dict]) -> list[Mapping]:
        # mmengine counts one epoch: the rate would never change.
        if not isinstance(self.train_loop, EpochBasedTrainLoop) and any(
                part.get('by_epoch', True) for part in given):
            raise UserError('param_scheduler counts epochs, and '
                            'IterBasedTrainLoop has none: set '
                            'by_epoch=False and its length in steps')
        fitted = fit_schedulers(given, self.max_iters,
                                len(self.train_dataloader))
        if fitted != given:
            self.logger.info(f'schedule shortened to the {self.max_iters} '
                             f'steps of the run: {fitted}')
        return fitted

    def _maybe_compile(self, target: str) -> None:
        """Compile the model instead of mmengine's whole step.

        Dynamo breaks at the optimizer, which gains nothing from it. mmengine
        has no public method for this.
        """
        settings = self.cfg.get('compile')
        if not settings:
            return
        options = {} if settings is True else settings
        unwrap(self.model).compile(**options)
        self.logger.info('the model is compiled: the first steps take '
                         'minutes')


def share_caches(dataset: Dataset) -> None:
    """Let the training processes of a machine share their image caches."""
    pipeline = getattr(dataset, 'pipeline', None)
    for transform in getattr(pipeline, 'transforms', ()):
        if getattr(transform, 'cache', None) is not None:
            transform.cache = transform.cache.shared()


def use_float32(wrapper: dict) -> None:
    """Turn the settings of an ``AmpOptimWrapper`` into float32's."""
    wrapper['type'] = 'OptimWrapper'
    for setting in ('loss_scale', 'dtype', 'use_fsdp'):
        wrapper.pop(setting, None)
