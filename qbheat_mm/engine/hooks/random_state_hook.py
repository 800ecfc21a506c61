# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Random numbers that a resumed run repeats."""
import torch
from mmengine.dist import get_rank
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import IterBasedTrainLoop, Runner

from ...errors import UserError
from ..seeded_loader import SeededBatchSampler, mix, seed_generators

# In the `meta` of a checkpoint: steps done of its epoch, steps it has.
_PROGRESS = 'epoch_progress'


@HOOKS.register_module()
class RandomStateHook(Hook):
    """Tie all random numbers to the seed, the rank and the progress.

    mmengine saves no random state and begins an interrupted epoch anew. With
    this hook and :class:`AutoScaleRunner` a resumed run ends bit-identical to
    an uninterrupted one, on deterministic devices and with any number of
    workers:

    - the model's random numbers (dropout, visible quarter) depend on the
      seed, rank and iteration;
    - a sample's augmentation depends on the seed, epoch, index and rank, see
      :class:`SeededBatchSampler`;
    - a run that is resumed within an epoch skips the batches that it was
      trained on.
    """

    # Before every hook that may draw random numbers itself.
    priority = 'VERY_HIGH'

    def __init__(self) -> None:
        self._resumed: dict = {}
        # Number of the epoch that runs, its first iteration, its steps.
        self._epoch: tuple[int, int, int] | None = None

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Remember how far the interrupted epoch was."""
        meta = checkpoint.get('meta')
        if runner._resume and isinstance(meta, dict):
            self._resumed = meta.get(_PROGRESS) or {}

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Write how far the epoch is.

        A later run can't tell: with other data or batches its epochs have
        other steps.
        """
        if self._epoch is not None:
            meta, (number, first, steps) = checkpoint['meta'], self._epoch
            done = meta['iter'] - first if meta['epoch'] == number else 0
            meta[_PROGRESS] = dict(done=done, steps=steps)

    def before_train_epoch(self, runner: Runner) -> None:
        """Tell the loader the epoch and where it was interrupted.

        Raises:
            UserError: If the epoch can't be continued.
        """
        if isinstance(runner.train_loop, IterBasedTrainLoop):
            return  # mmengine replays the loader
        steps = len(runner.train_dataloader)
        batches = getattr(runner.train_dataloader, 'batch_sampler', None)
        is_seeded = isinstance(batches, SeededBatchSampler)
        done = self._resumed.get('done', 0)
        before = self._resumed.get('steps', steps)
        self._resumed = {}
        if done and not (is_seeded and steps == before):
            raise UserError(
                f'the checkpoint was written after {done} of {before} steps '
                f'of an epoch, and the epochs of this run have {steps}: set '
                'batch size, processes and data as in that run, or resume '
                'from the end of an epoch')
        if is_seeded:
            batches.epoch, batches.skipped = runner.epoch, done
        self._epoch = (runner.epoch, runner.iter - done, steps)
        if before != steps:
            runner.logger.warning(
                f'the epochs of the checkpoint had {before} steps, those of '
                f'this run have {steps}: data, processes or '
                'train_dataloader.batch_size differ')

    def before_train_iter(self,
                          runner: Runner,
                          batch_idx: int,
                          data_batch=None) -> None:
        """Seed the main process for the model's random numbers."""
        seed = mix(runner.seed, get_rank(), runner.iter)
        seed_generators(seed)
        torch.manual_seed(seed)
