# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Watch what pre-training learns while it runs."""
from collections.abc import Sequence

import torch
from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.model import is_model_wrapper
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ...analysis.direction_loss import direction_losses
from ...analysis.pixels import PixelSpace
from ...analysis.reconstruction import PLACES, paint, strips, trained_places
from ...analysis.spectrum import describe_predictor
from ...arguments import (
    POSITIVE_INT,
    TEXT_OR_TEXTS,
    as_texts,
    checked,
    optional,
)
from ...errors import UserError
from ...models.selfsup import QBHeat
from ...utils.images import find_images, load_images


@HOOKS.register_module()
class AnalysisHook(Hook):
    """Log the matrices, the loss of each direction and reconstructions.

    Every ``interval`` epochs, and after the last, it writes to mmengine's
    visualizer (files, TensorBoard, W&B: whatever ``vis_backends`` name)

    - ``analysis/loss_half_right`` ...: the loss along each direction at
      each scale, on a few fixed images in evaluation mode;
    - ``analysis/norm_A_quarter`` ...: spectral norms of the learned matrices;
    - ``analysis/energy_ratio_quarter``, ``analysis/energy_ratio_half``:
      E(A) / E(B);
    - ``reconstruction_center`` ...: pictures, original | visible quarter |
      reconstruction; nothing of it is taken from the masked pixels.

    It draws no random number and leaves the model as it was: training is bit
    by bit the same with it and without.

    Args:
        interval (int): Epochs between two looks. Defaults to 1.
        images (str | Sequence[str], optional): Files and folders to look at,
            scaled and cropped to the size of the training images. By default
            the first images of the first batch of this run, as augmented
            (those of a resumed run are others).
        num_images (int): How many images. Defaults to 4.
        places (str | Sequence[str]): Places of the visible quarter in the
            pictures; those that the model is not trained on are left out.
            Defaults to ('top_left', 'center').

    Raises:
        UserError: An unknown place; an interval or number below 1.
    """

    @checked(
        interval=POSITIVE_INT,
        images=optional(TEXT_OR_TEXTS),
        num_images=POSITIVE_INT,
        places=TEXT_OR_TEXTS)
    def __init__(self,
                 interval: int = 1,
                 images: str | Sequence[str] | None = None,
                 num_images: int = 4,
                 places: str | Sequence[str] = ('top_left', 'center')
                 ) -> None:
        places = as_texts(places)
        unknown = set(places) - set(PLACES)
        if unknown:
            raise UserError(f'AnalysisHook: place {sorted(unknown)[0]!r} is '
                            f'not one of {", ".join(PLACES)}')
        self.interval = interval
        self.files = None if images is None else as_texts(images)
        self.num_images = num_images
        self.places = places
        self.inputs = None

    def before_train(self, runner: Runner) -> None:
        """Find the images that were asked for, before time is spent.

        Raises:
            UserError: If there is none, or the model is not QBHeat.
        """
        model = _unwrap(runner)
        if not isinstance(model, QBHeat):
            raise UserError(
                f'AnalysisHook watches the pre-training of QBHeat, and '
                f'model.type is {type(model).__name__}: take the hook out of '
                'custom_hooks')
        if self.files is not None:
            self.files = find_images(self.files)[:self.num_images]

    def before_train_iter(self,
                          runner: Runner,
                          batch_idx: int,
                          data_batch: dict | None = None) -> None:
        """Take the images: those of the first batch, or files of its size."""
        if self.inputs is not None or not is_main_process():
            return
        inputs = data_batch['inputs'][:self.num_images]
        if self.files is not None:
            _, images = load_images(self.files, tuple(inputs[0].shape[1:]))
            inputs = [torch.from_numpy(image).permute(2, 0, 1)
                      for image in images]
        self.inputs = torch.stack([image.cpu() for image in inputs])

    def after_train_epoch(self, runner: Runner) -> None:
        """Look, every ``interval`` epochs and after the last."""
        due = self.every_n_epochs(runner, self.interval)
        last = self.is_last_train_epoch(runner)
        if (due or last) and is_main_process():
            self._look(runner)

    def _look(self, runner: Runner) -> None:
        model = _unwrap(runner)
        pixels = PixelSpace(model.data_preprocessor)
        images = pixels.normalize(self.inputs)
        scalars = {
            f'analysis/loss_{name.replace("/", "_")}': loss
            for name, loss in direction_losses(model, images).items()
        }
        for scale, numbers in describe_predictor(model.predictor).items():
            if scale == 'across_scales':
                continue
            scalars[f'analysis/energy_ratio_{scale}'] = numbers['energy_ratio']
            for matrix in 'AB':
                scalars[f'analysis/norm_{matrix}_{scale}'] = numbers[matrix][
                    'spectral_norm']
        runner.visualizer.add_scalars(scalars, step=runner.iter)
        runner.logger.info('AnalysisHook: ' + ', '.join(
            f'{name.removeprefix("analysis/")} {value:.4f}'
            for name, value in scalars.items()))
        for place in self.places:
            if place in trained_places(model):
                runner.visualizer.add_image(
                    f'reconstruction_{place}',
                    strips(paint(model, images, place), model, pixels),
                    step=runner.iter)


def _unwrap(runner: Runner) -> torch.nn.Module:
    model = runner.model
    return model.module if is_model_wrapper(model) else model
