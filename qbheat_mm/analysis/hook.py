# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Watch what pre-training learns while it runs."""
from collections.abc import Sequence

import torch
from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ..arguments import (
    INT,
    POSITIVE_INT,
    TEXT,
    TEXT_OR_TEXTS,
    as_texts,
    checked,
    optional,
)
from ..datasets.image_lists import find_images, load_images, spread
from ..errors import UserError
from ..evaluation.encoder import Encoder
from ..evaluation.labelled import (
    LabelledFolder,
    knn_of_folders,
    labelled_folder,
)
from ..models.layers.normalize import Normalization
from ..models.selfsup import QBHeat, RandomMasking
from ..utils.modules import unwrap
from .copied_features import copied_loss, masked_loss
from .direction_loss import direction_losses
from .embedding_quality import all_outputs, describe_embeddings
from .matrices import evaluating, linear_models
from .pixels import PixelSpace
from .reconstruction import (
    QUARTERS,
    reconstruct,
    strips,
    trained_positions,
)
from .spectrum import describe_predictor


@HOOKS.register_module()
class AnalysisHook(Hook):
    """Log losses, matrices, embeddings and reconstructions.

    Every ``interval`` epochs, and after the last, it writes to mmengine's
    visualizer (files, TensorBoard, W&B: whatever ``vis_backends`` name)

    - ``analysis/loss`` and ``analysis/loss_copied``: the loss, and that with
      A = B = 0, which copies what is visible;
    - ``analysis/loss_half_right`` ...: the loss along each direction at
      each scale, on a few fixed images in evaluation mode;
    - ``analysis/norm_A_quarter`` ...: spectral norms of the learned matrices;
    - ``analysis/energy_ratio_quarter``, ``analysis/energy_ratio_half``:
      E(A) / E(B);
    - ``analysis/effective_rank`` (RankMe), ``analysis/embedding_similarity``,
      ``analysis/feature_similarity``, ``analysis/token_similarity`` and
      ``analysis/token_similarity_across_images``: of the embeddings of more
      images, see :mod:`qbheat_mm.analysis.embedding_quality`;
    - ``analysis/knn_top1``: the accuracy of nearest neighbours in per cent,
      where a labelled folder is named, see
      :mod:`qbheat_mm.evaluation.knn`;
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
        positions (str | Sequence[str]): Positions of the visible quarter in the
            pictures; those that the model is not trained on are left out.
            Defaults to ('top_left', 'center').
        num_embeddings (int): How many images are embedded, the first ones of
            this run, or spread evenly over ``images``; 0 for none. Defaults
            to 256.
        knn_train (str, optional): A folder of classes, whose labels the
            training never sees. Defaults to None.
        knn_val (str, optional): Another one, to be classified by the first;
            by default each image of the first by all its others.

    Raises:
        UserError: An unknown position; an interval or number below 1.
    """

    @checked(
        interval=POSITIVE_INT,
        images=optional(TEXT_OR_TEXTS),
        num_images=POSITIVE_INT,
        positions=TEXT_OR_TEXTS,
        num_embeddings=INT,
        knn_train=optional(TEXT),
        knn_val=optional(TEXT))
    def __init__(self,
                 interval: int = 1,
                 images: str | Sequence[str] | None = None,
                 num_images: int = 4,
                 positions: str | Sequence[str] = ('top_left', 'center'),
                 num_embeddings: int = 256,
                 knn_train: str | None = None,
                 knn_val: str | None = None) -> None:
        positions = as_texts(positions)
        unknown = set(positions) - set(QUARTERS)
        if unknown:
            raise UserError(f'AnalysisHook: position {sorted(unknown)[0]!r} is '
                            f'not one of {", ".join(QUARTERS)}')
        if num_embeddings < 0 or num_embeddings == 1:
            raise UserError(f'AnalysisHook: num_embeddings={num_embeddings} '
                            'must be 0 or at least 2')
        if knn_val is not None and knn_train is None:
            raise UserError(f'AnalysisHook: knn_val={knn_val!r} needs '
                            'knn_train, the folder of the neighbours')
        self.interval = interval
        self.files = None if images is None else as_texts(images)
        self.num_images = num_images
        self.positions = positions
        self.num_embeddings = num_embeddings
        self.knn_folders = knn_train, knn_val
        self.knn_data: tuple[LabelledFolder, LabelledFolder | None] | None = (
            None)
        self.inputs = None
        self.embedded: list[torch.Tensor] = []

    def before_train(self, runner: Runner) -> None:
        """Find the images that were asked for, before time is spent.

        Raises:
            UserError: If there is none, or the model is not QBHeat.
        """
        model = unwrap(runner.model)
        if not isinstance(model, QBHeat) or isinstance(model, RandomMasking):
            raise UserError(
                f'AnalysisHook watches the pre-training of QBHeat, and '
                f'model.type is {type(model).__name__}: take the hook out of '
                'custom_hooks')
        if self.files is not None:
            self.files = find_images(self.files)
        train, val = self.knn_folders
        if train is None:
            return
        if Normalization.of(model.data_preprocessor) is None:
            raise UserError(
                f'AnalysisHook: knn_train={train!r} needs mean, deviation and '
                'channel order, which model.data_preprocessor, a '
                f'{type(model.data_preprocessor).__name__}, does not tell')
        data = labelled_folder(train)
        self.knn_data = data, val and labelled_folder(val, data.classes)

    def before_train_iter(self,
                          runner: Runner,
                          batch_idx: int,
                          data_batch: dict | None = None) -> None:
        """Take the images: the first ones, or files of their size."""
        if not is_main_process():
            return
        left = self.num_embeddings - len(self.embedded)
        if self.inputs is not None and (self.files is not None or left <= 0):
            return
        batch = data_batch['inputs'][:max(self.num_images, left)]
        if self.inputs is None:
            inputs = batch[:self.num_images]
            if self.files is not None:
                size = tuple(inputs[0].shape[1:])
                inputs = _read(self.files[:self.num_images], size)
                batch = _read(spread(self.files, self.num_embeddings), size
                              ) if self.num_embeddings else []
            self.inputs = torch.stack([image.cpu() for image in inputs])
        self.embedded += [image.cpu() for image in batch[:left]
                          if image.shape == self.inputs[0].shape]

    def after_train_epoch(self, runner: Runner) -> None:
        """Look, every ``interval`` epochs and after the last."""
        due = self.every_n_epochs(runner, self.interval)
        last = self.is_last_train_epoch(runner)
        if (due or last) and is_main_process():
            self._look(runner)

    def _look(self, runner: Runner) -> None:
        model = unwrap(runner.model)
        pixels = PixelSpace(model.data_preprocessor)
        images = pixels.normalize(self.inputs)
        scalars = {'analysis/loss': masked_loss(model, images)}
        if linear_models(model.predictor):
            scalars['analysis/loss_copied'] = copied_loss(model, images)
        scalars.update({
            f'analysis/loss_{name.replace("/", "_")}': loss
            for name, loss in direction_losses(model, images).items()
        })
        for scale, numbers in describe_predictor(model.predictor).items():
            if scale == 'across_scales':
                continue
            scalars[f'analysis/energy_ratio_{scale}'] = numbers['energy_ratio']
            for matrix in 'AB':
                scalars[f'analysis/norm_{matrix}_{scale}'] = numbers[matrix][
                    'spectral_norm']
        scalars.update({f'analysis/{name}': value for name, value
                        in self._look_at_embeddings(model, pixels).items()})
        runner.visualizer.add_scalars(scalars, step=runner.iter)
        runner.logger.info('AnalysisHook: ' + ', '.join(
            f'{name.removeprefix("analysis/")} {value:.4f}'
            for name, value in scalars.items()))
        for position in self.positions:
            if position in trained_positions(model):
                runner.visualizer.add_image(
                    f'reconstruction_{position}',
                    strips(reconstruct(model, images, position), model,
                           pixels),
                    step=runner.iter)

    def _look_at_embeddings(self, model: QBHeat,
                            pixels: PixelSpace) -> dict[str, float]:
        """Numbers of the embeddings, without labels and with them."""
        found = {}
        if len(self.embedded) > 1:
            found = describe_embeddings(model, map(
                pixels.normalize, torch.stack(self.embedded).split(32)))
        if self.knn_data is not None:
            with evaluating(model), all_outputs(model.backbone):
                encoder = Encoder(
                    model.backbone, Normalization.of(model.data_preprocessor))
                encoder.to(next(model.parameters()).device)
                found['knn_top1'] = knn_of_folders(
                    encoder, *self.knn_data, size=self.inputs.shape[2:])
        return found


def _read(files: Sequence[str], size: tuple[int, int]) -> list[torch.Tensor]:
    """Pictures (3, H, W), BGR, uint8, of what can be decoded."""
    _, images = load_images(files, size)
    return [torch.from_numpy(image).permute(2, 0, 1) for image in images]
