"""Head, checkpoint and data sets mean the same classes."""
import logging
from collections.abc import Sequence

from mmdet.registry import HOOKS
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import Runner
from torch import nn
from torch.utils.data import DataLoader

from qbheat_mm.engine.origin import classes_in
from qbheat_mm.engine.wrapping import unwrap
from qbheat_mm.errors import UserError

from .check_evaluator import check_evaluator

#: Parts of a detector that tell classes of things apart.
_HEADS = {'bbox_head', 'mask_head'}


@HOOKS.register_module()
class CheckClassesHook(Hook):
    """Compare ``num_classes`` of box and mask heads with the data set's.

    mmdet's ``NumClassCheckHook`` does so with an assertion, and not when
    testing. That the annotation file holds these classes is checked earlier,
    by :class:`MatchedCocoDataset`. The evaluator's file is compared with the
    data set's, too, and the order of the classes with that of the data which
    the weights were trained on.
    """

    def __init__(self) -> None:
        self.trained_on: Sequence[str] = ()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Remember the classes that the checkpoint was trained on."""
        self.trained_on = classes_in(checkpoint)

    def before_train(self, runner: Runner) -> None:
        """Check the training set, and how validation will evaluate."""
        self._check(runner, runner.train_dataloader)
        classes = _classes(runner.train_dataloader)
        if len(self.trained_on) == len(classes):
            _compare('training set', classes, 'checkpoint', self.trained_on,
                     stops=runner._resume)
        self.trained_on = classes
        if runner.val_loop is not None:
            _compare('validation set', _classes(runner.val_dataloader),
                     'training set', self.trained_on)
            check_evaluator(runner.val_dataloader.dataset,
                            runner.val_evaluator.metrics, 'val',
                            _has_masks(runner.model))

    def before_val(self, runner: Runner) -> None:
        """Check the validation set."""
        self._check(runner, runner.val_dataloader)

    def before_test(self, runner: Runner) -> None:
        """Check the test set."""
        self._check(runner, runner.test_dataloader)
        if self.trained_on:
            _compare('test set', _classes(runner.test_dataloader),
                     'checkpoint', self.trained_on)
        check_evaluator(runner.test_dataloader.dataset,
                        runner.test_evaluator.metrics, 'test',
                        _has_masks(runner.model))

    @staticmethod
    def _check(runner: Runner, dataloader: DataLoader) -> None:
        """Compare.

        Raises:
            UserError: If a box head predicts another number of classes.
        """
        meta = dataloader.dataset.metainfo
        # Of panoptic data, boxes are of things alone.
        classes = meta.get('thing_classes', meta['classes'])
        heads = {
            name: module.num_classes
            for name, module in unwrap(runner.model).named_modules()
            if _HEADS & set(name.split('.')) and 'loss' not in name
            and getattr(module, 'num_classes', len(classes)) != len(classes)}
        if heads:
            found = ', '.join(f'num_classes={number} of {name}'
                              for name, number in heads.items())
            options = ' '.join(f'model.{name}.num_classes={len(classes)}'
                               for name in heads)
            raise UserError(
                f'{found}, and the data set has {len(classes)} classes, '
                f'{list(classes)}: set --cfg-options {options}')


def _classes(dataloader: DataLoader) -> Sequence[str]:
    return dataloader.dataset.metainfo['classes']


def _compare(name: str, found: Sequence[str], other: str,
             classes: Sequence[str], stops: bool = True) -> None:
    """Compare two lists of classes, of which labels are the places.

    Raises:
        UserError: A class of both stands at different places, if that stops.
    """
    moved = [c for i, c in enumerate(found)
             if c in classes and list(classes).index(c) != i]
    if moved:
        line = (
            f'the classes of the {name}, {list(found)}, and those of the '
            f'{other}, {list(classes)}, have another order, in which '
            f'{moved[0]!r} is another label: give the {name} '
            f'metainfo.classes in the order of the {other}')
        if stops:
            raise UserError(line)
        print_log(line, logger='current', level=logging.WARNING)
        return
    renamed = [f'{new!r} for {old!r}'
               for new, old in zip(found, classes) if new != old]
    if renamed:
        print_log(
            f'the {name} calls classes otherwise than the {other}, and they '
            f'count as the same: {", ".join(renamed[:5])}',
            logger='current', level=logging.WARNING)


def _has_masks(model: nn.Module) -> bool:
    """Whether a detector, in whatever wrapper, predicts masks, too."""
    return any(getattr(part, 'with_mask', False) for part in model.modules())
