# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Folders of classes mean the same in training, validation and test."""
import logging
from collections.abc import Iterable, Sequence
from unicodedata import normalize

from mmengine.evaluator import BaseMetric
from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ...errors import UserError
from ..origin import classes_in
from ..wrapping import unwrap


@HOOKS.register_module()
class CheckFoldersHook(Hook):
    """Compare the classes of the data sets, the head and the checkpoint.

    The folders of each data set are numbered in the order of its
    ``metainfo.classes``, or in alphabetical order. A class that is absent
    from one of them shifts the labels of all behind it, without a word.
    """

    def __init__(self) -> None:
        self.trained_on: Sequence[str] = ()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Remember the classes that the checkpoint was trained on."""
        self.trained_on = classes_in(checkpoint)

    def before_train(self, runner: Runner) -> None:
        """Compare training set, head, validation set, resumed checkpoint.

        Raises:
            UserError: If their classes differ.
        """
        classes = _classes(runner.train_dataloader)
        if self.trained_on:
            _check_weights(classes, self.trained_on, runner._resume)
        _check_head(runner, classes)
        if runner.val_loop is not None:
            _check_topk('val', runner.val_evaluator.metrics, classes)
            _check('validation set', _classes(runner.val_dataloader),
                   'training set', classes)

    def before_test(self, runner: Runner) -> None:
        """Compare test set, head and checkpoint.

        Raises:
            UserError: If their classes differ.
        """
        classes = _classes(runner.test_dataloader)
        if self.trained_on:
            _check('test set', classes, 'checkpoint', self.trained_on)
        _check_head(runner, classes)
        _check_topk('test', runner.test_evaluator.metrics, classes)


def _classes(dataloader) -> Sequence[str]:
    return dataloader.dataset.metainfo.get('classes') or ()


def _check(name: str, found: Sequence[str], other: str,
           classes: Sequence[str]) -> None:
    if list(found) == list(classes):
        return
    composed = [sorted(normalize('NFC', str(name)) for name in names)
                for names in (found, classes)]
    # as of macOS, whose letters and marks stand one after the other
    written = ascii if composed[0] == composed[1] else repr
    differences = [
        f'{what} {", ".join(map(written, sorted(names)[:5]))}'
        for what, names in (('it lacks', set(classes) - set(found)),
                            ('it alone has', set(found) - set(classes)))
        if names
    ] or ['their order differs']
    raise UserError(
        f'the {name} has {len(found)} classes and the {other} '
        f'{len(classes)}: {" and ".join(differences)}; give both the same '
        'folders, an empty one where a class has no images, and the same '
        'metainfo.classes, if any')


def _check_weights(classes: Sequence[str], trained_on: Sequence[str],
                   resumed: bool) -> None:
    """Compare the training set with what the head's weights are of.

    Raises:
        UserError: If they differ in a run that goes on; one that begins with
            the weights (``load_from``) learns the new ones, and is told.
    """
    if resumed:
        _check('training set', classes, 'checkpoint', trained_on)
    elif len(classes) == len(trained_on) and [*classes] != [*trained_on]:
        print_log('the head begins with weights of the classes '
                  f'{list(trained_on)[:5]} and learns {list(classes)[:5]}',
                  logger='current', level=logging.WARNING)


def _check_topk(part: str, metrics: Iterable[BaseMetric],
                classes: Sequence[str]) -> None:
    """mmpretrain finds after the first epoch that there are too few."""
    for metric in metrics:
        topk = getattr(metric, 'topk', ())
        if topk and max(topk) > len(classes):
            raise UserError(
                f'{part}_evaluator.topk={tuple(topk)}, and the data have '
                f'{len(classes)} classes: set --cfg-options '
                f'{part}_evaluator.topk=1')


def _check_head(runner: Runner, classes: Sequence[str]) -> None:
    number = unwrap(runner.model).head.num_classes
    if number != len(classes):
        raise UserError(
            f'model.head.num_classes={number}, and the data have '
            f'{len(classes)} classes ({", ".join(classes[:5])}'
            f'{", ..." if len(classes) > 5 else ""}): set --cfg-options '
            f'model.head.num_classes={len(classes)}')
