# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Check that class folders mean the same in training, validation and test."""
from collections.abc import Sequence

from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ...errors import UserError
from ...utils.modules import unwrap


@HOOKS.register_module()
class CheckFoldersHook(Hook):
    """Compare the classes of the data sets, the head and the checkpoint.

    Each data set numbers its own folders in alphabetical order, so that a
    missing class silently shifts the labels of all that follow.
    """

    def __init__(self) -> None:
        self.trained: Sequence[str] = ()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Remember the classes that the checkpoint was trained on."""
        meta = checkpoint.get('meta') or {}
        self.trained = (meta.get('dataset_meta') or {}).get('classes') or ()

    def before_train(self, runner: Runner) -> None:
        """Compare training set, head, validation set and checkpoint.

        Raises:
            UserError: If their classes differ.
        """
        classes = _classes(runner.train_dataloader)
        if runner.iter and self.trained:  # resumed
            _compare('training set', classes, 'checkpoint', self.trained)
        elif len(classes) == len(self.trained) and (
                list(classes) != list(self.trained)):
            runner.logger.warning(
                f'the head starts with weights for {list(self.trained)[:5]} '
                f'and learns {list(classes)[:5]}')
        _check_head(runner, classes)
        if runner.val_loop is not None:
            _compare('validation set', _classes(runner.val_dataloader),
                     'training set', classes)

    def before_test(self, runner: Runner) -> None:
        """Compare test set, head and checkpoint.

        Raises:
            UserError: If their classes differ.
        """
        classes = _classes(runner.test_dataloader)
        if self.trained:
            _compare('test set', classes, 'checkpoint', self.trained)
        _check_head(runner, classes)


def _classes(dataloader) -> Sequence[str]:
    return dataloader.dataset.metainfo.get('classes') or ()


def _compare(name: str, found: Sequence[str], other: str,
             classes: Sequence[str]) -> None:
    if list(found) == list(classes):
        return
    # ascii tells apart letters that look the same (macOS composes them).
    differences = [
        f'{verb} {", ".join(map(ascii, sorted(names)[:5]))}'
        for verb, names in (('lacks', set(classes) - set(found)),
                            ('has in addition', set(found) - set(classes)))
        if names] or ['has them in another order']
    raise UserError(
        f'the {name} has {len(found)} classes, the {other} {len(classes)}: it '
        f'{" and ".join(differences)}; use the same folders (empty ones for '
        'classes without images) and the same metainfo.classes')


def _check_head(runner: Runner, classes: Sequence[str]) -> None:
    number = unwrap(runner.model).head.num_classes
    if number != len(classes):
        raise UserError(
            f'model.head.num_classes={number}, but the data set has '
            f'{len(classes)} classes ({", ".join(classes[:5])}, ...): set '
            f'model.head.num_classes={len(classes)}')
