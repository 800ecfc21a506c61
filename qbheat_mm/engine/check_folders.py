# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Classes of image folders: counted, and the same in all data sets."""
from collections.abc import Sequence

from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.registry import DATASETS, HOOKS, DefaultScope
from mmengine.runner import Runner

from ..errors import UserError
from ..trained.checkpoint import Checkpoint
from ..utils.modules import unwrap
from ..utils.settings import set_classes


def count_classes(cfg: Config) -> int:
    """Set a classifier's number of classes to that of its data.

    Args:
        cfg (Config): Changed in place.

    Returns:
        int: Classes of the first data set that exists.

    Raises:
        UserError: If there are fewer than two, or an annotation file gives
            no names.
    """
    missing = None
    for name in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        settings = (cfg.get(name) or {}).get('dataset')
        if not settings:
            continue
        try:
            with DefaultScope.overwrite_default_scope('mmpretrain'):
                dataset = DATASETS.build(settings)
        # Tests may run where the training set is not available.
        except (FileNotFoundError, UserError) as error:
            missing = missing or error
            continue
        number = len(dataset.metainfo.get('classes') or ())
        if number < 2:
            raise UserError(
                f'{name}.dataset ({settings.get("data_root", "")}) has '
                f'{number} classes, and at least 2 are needed: a folder for '
                'each class, or metainfo.classes for an annotation file')
        set_classes(cfg, number)
        return number
    raise UserError(f'no data set to count classes in: {missing}')


@HOOKS.register_module()
class CheckFoldersHook(Hook):
    """Compare the classes of the data sets, the head and the checkpoint.

    Each data set numbers its own folders in alphabetical order, so a missing
    folder silently shifts the labels of all that follow.
    """

    def __init__(self) -> None:
        self.trained: tuple[str, ...] = ()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Remember the classes that the checkpoint was trained on."""
        self.trained = Checkpoint(checkpoint).classes

    def before_train(self, runner: Runner) -> None:
        """Compare training set, head, validation set and checkpoint.

        Raises:
            UserError: If their classes differ.
        """
        classes = _classes(runner.train_dataloader)
        if runner.iter and self.trained:  # resumed
            _compare('training set', classes, 'checkpoint', self.trained)
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
            f'{len(classes)} classes: set '
            f'model.head.num_classes={len(classes)}')
