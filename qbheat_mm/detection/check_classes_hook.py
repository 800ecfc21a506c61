"""The head predicts as many classes as the data set has."""
from mmdet.registry import HOOKS
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch.utils.data import DataLoader

from qbheat_mm.errors import UserError


@HOOKS.register_module()
class CheckClassesHook(Hook):
    """Compare ``num_classes`` of the box heads with the data set's classes.

    mmdet's ``NumClassCheckHook`` does so with an assertion, and not when
    testing. That the annotation file holds these classes is checked earlier,
    by :class:`MatchedCocoDataset`.
    """

    def before_train(self, runner: Runner) -> None:
        """Check the training set."""
        self._check(runner, runner.train_dataloader)

    def before_val(self, runner: Runner) -> None:
        """Check the validation set."""
        self._check(runner, runner.val_dataloader)

    def before_test(self, runner: Runner) -> None:
        """Check the test set."""
        self._check(runner, runner.test_dataloader)

    @staticmethod
    def _check(runner: Runner, dataloader: DataLoader) -> None:
        """Compare.

        Raises:
            UserError: If a box head predicts another number of classes.
        """
        classes = dataloader.dataset.metainfo['classes']
        for name, module in runner.model.named_modules():
            num_classes = getattr(module, 'num_classes', len(classes))
            if 'bbox_head' in name.split('.') and num_classes != len(classes):
                raise UserError(
                    f'num_classes={num_classes} of {name}, and the data set '
                    f'has {len(classes)} classes, {list(classes)}: set '
                    f'--cfg-options model.{name}.num_classes={len(classes)}')
