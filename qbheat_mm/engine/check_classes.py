# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Check that all parts of a run agree on their classes."""
from collections.abc import Iterable, Sequence

from mmengine.evaluator import BaseMetric
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch.utils.data import DataLoader, Dataset

from ..datasets.wrappers import parts_of
from ..errors import UserError
from ..trained.checkpoint import Checkpoint
from ..trained.fit import few
from ..utils.modules import unwrap
from .run_state import RunState

#: Parts of models that predict the classes of the data set.
_HEADS = {'head', 'bbox_head', 'mask_head'}


@HOOKS.register_module()
class CheckClassesHook(Hook):
    """Compare the classes of data sets, heads, checkpoint and evaluator.

    Data sets number their classes independently, e.g. by the alphabetical
    order of folders, so one missing class silently shifts the labels of all
    that follow. Raises UserError before training or testing if names, their
    order or ``num_classes`` of a head differ, or if a data set's method
    ``check_metrics`` (see :class:`MatchedCocoDataset`) refuses the evaluator.
    All data sets within a wrapper, such as ``ConcatDataset``, are checked.
    """

    def __init__(self) -> None:
        self.trained_on: Sequence[str] = ()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Remember the classes that the checkpoint was trained on."""
        self.trained_on = Checkpoint(checkpoint).classes

    def before_train(self, runner: Runner) -> None:
        """Check training set, heads, checkpoint, validation set, evaluator."""
        classes = _classes(parts_of(runner.train_dataloader.dataset)[0])
        if not (RunState.of(runner).resumes
                or sorted(self.trained_on) == sorted(classes)):
            # A new run may have other classes.
            if len(self.trained_on) == len(classes):
                runner.logger.warning(
                    'load_from was trained on other classes, '
                    f'{few(self.trained_on)}: each starts with the weights of '
                    'the class that had its number')
            self.trained_on = ()
        self._check(runner, 'train', runner.train_dataloader)
        self.trained_on = classes
        if runner.val_loop is not None:
            self._check(runner, 'val', runner.val_dataloader,
                        runner.val_evaluator.metrics, 'training set')

    def before_val(self, runner: Runner) -> None:
        """Check the heads of a run that only validates."""
        _check_heads(runner, runner.val_dataloader)

    def before_test(self, runner: Runner) -> None:
        """Check test set, heads, checkpoint and evaluator."""
        self._check(runner, 'test', runner.test_dataloader,
                    runner.test_evaluator.metrics)

    def _check(self, runner: Runner, name: str, loader: DataLoader,
               metrics: Iterable[BaseMetric] = (),
               other: str = 'checkpoint') -> None:
        parts = parts_of(loader.dataset)
        if not self.trained_on:
            other = 'first data set'
        for part in parts:
            require_same(f'{name}_dataloader.dataset', part, other,
                         self.trained_on or _classes(parts[0]))
        _check_heads(runner, loader)
        checked = [part for part in parts if hasattr(part, 'check_metrics')]
        for part in checked:
            part.check_metrics(metrics, f'{name}_evaluator')
        if checked and metrics and parts != [loader.dataset]:
            _require_distinct(checked, len(loader.dataset), name)


def _classes(dataset: Dataset) -> Sequence[str]:
    return tuple(dataset.metainfo.get('classes') or ())


def _require_distinct(datasets: Iterable[Dataset], number: int, name: str
                      ) -> None:
    """Require one image for each id, by which evaluators know images."""
    ids = set()
    for dataset in datasets:
        for i in range(len(dataset)):
            ids.add(dataset.get_data_info(i)['img_id'])
    if len(ids) < number:
        raise UserError(
            f'{name}_dataloader.dataset has {number} images, but only '
            f'{len(ids)} ids, by which {name}_evaluator knows them: evaluate '
            'each annotation file once and alone, or merge them into one')


def require_same(name: str, dataset: Dataset, other: str,
                 classes: Sequence[str]) -> None:
    """Raise UserError if a data set has other classes, or another order."""
    own = _classes(dataset)
    if own == classes:
        return
    source = getattr(dataset, 'ann_file', '') or getattr(
        dataset, 'data_root', '')
    difference = sorted({*own} ^ {*classes})
    problem = (f'they are in another order ({list(own[:8])} and '
               f'{list(classes[:8])})')
    if difference:
        # ascii tells apart letters that look the same (macOS composes them).
        problem = f'only one of them has {ascii(difference[:5])}'
    raise UserError(
        f"{name} ('{source}') has {len(own)} classes, the {other} "
        f'{len(classes)}: {problem}; use the same folders (empty ones for '
        'classes without images) and the same metainfo.classes')


def _check_heads(runner: Runner, loader: DataLoader) -> None:
    # Panoptic data have boxes of things only.
    dataset = parts_of(loader.dataset)[0]
    classes = list(dataset.metainfo.get('thing_classes', _classes(dataset)))
    for name, module in unwrap(runner.model).named_modules():
        number = getattr(module, 'num_classes', len(classes))
        if _is_head(name) and number != len(classes):
            setting = f'model.{name}.num_classes'
            raise UserError(
                f'{setting}={number}, but the data set has {len(classes)} '
                f'classes {classes[:5]}: set --cfg-options '
                f'{setting}={len(classes)}, or change metainfo.classes')


def _is_head(name: str) -> bool:
    """Whether a module predicts the classes of the data set."""
    return (not _HEADS.isdisjoint(name.split('.'))
            and not name.startswith('backbone.') and 'loss' not in name)
