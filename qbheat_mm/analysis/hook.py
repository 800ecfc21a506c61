# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Watch what pre-training learns while it runs."""
from collections.abc import Sequence

import torch
from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor

from ..datasets import find_images, load_images, spread
from ..errors import UserError
from ..models.layers.normalize import Normalization, Normalize
from ..models.selfsup import QBHeat, RandomMasking
from ..models.selfsup.quarters import CENTER, CORNERS
from ..utils.modules import evaluating, unwrap

# The analyses are imported when they run: `import qbheat_mm`, which registers
# the hook, stays quick.


@HOOKS.register_module()
class AnalysisHook(Hook):
    """Log losses, matrices, embeddings and reconstructions.

    Every ``interval`` epochs, and after the last, it writes to mmengine's
    visualizer (files, TensorBoard, W&B: whatever ``vis_backends`` name)

    - ``analysis/loss`` and ``analysis/loss_copied``: the loss on a few fixed
      images in evaluation mode, and that with A = B = 0;
    - ``analysis/loss_half_right`` ...: the loss of each direction at each
      scale;
    - ``analysis/norm_A_quarter`` ...: spectral norms of the learned matrices;
    - ``analysis/energy_ratio_quarter``, ``analysis/energy_ratio_half``:
      E(A) / E(B);
    - ``analysis/effective_rank`` (RankMe), ``analysis/embedding_similarity``,
      ``analysis/feature_similarity``, ``analysis/token_similarity`` and
      ``analysis/token_similarity_across_images``: of the embeddings of more
      images, see :mod:`qbheat_mm.analysis.embedding_quality`;
    - ``analysis/knn_top1``: k-NN accuracy in percent, if ``knn_train`` is
      given, see :mod:`qbheat_mm.evaluation.knn`;
    - ``reconstruction_center`` ...: pictures, original | visible quarter |
      reconstruction, with nothing taken from the masked pixels.

    It draws no random number and leaves the model as it was: training is
    bit-identical with it and without.

    Args:
        interval (int): Epochs between two looks. Defaults to 1.
        images (str | Sequence[str], optional): Files and folders, scaled and
            cropped to the size of the training images. Defaults to the first
            images of this run, as augmented.
        num_images (int): Images for losses and pictures. Defaults to 4.
        positions (str | Sequence[str]): Positions of the visible quarter in
            the pictures; those that the model is not trained on are left
            out. Defaults to ('top_left', 'center').
        num_embeddings (int): Images to embed, the first ones of this run or
            spread evenly over ``images``; 0 for none. Defaults to 256.
        knn_train (str, optional): A folder of classes, whose labels the
            training never sees. Defaults to None.
        knn_val (str, optional): Another one, to be classified by the first;
            by default each image of the first is classified by the others.

    Raises:
        UserError: An unknown position, or ``knn_val`` without ``knn_train``.
    """

    def __init__(self,
                 interval: int = 1,
                 images: str | Sequence[str] | None = None,
                 num_images: int = 4,
                 positions: str | Sequence[str] = ('top_left', 'center'),
                 num_embeddings: int = 256,
                 knn_train: str | None = None,
                 knn_val: str | None = None) -> None:
        self.positions = _as_list(positions)
        for position in self.positions:
            if position not in (*CORNERS, CENTER):
                raise UserError(f'AnalysisHook: position {position!r} is not '
                                f'one of {", ".join((*CORNERS, CENTER))}')
        if interval < 1 or num_images < 1:  # would never look
            raise UserError(f'AnalysisHook: interval={interval} and '
                            f'num_images={num_images} must be at least 1')
        if knn_val is not None and knn_train is None:
            raise UserError(f'AnalysisHook: knn_val={knn_val!r} needs '
                            'knn_train')
        self.interval = interval
        self.files = None if images is None else _as_list(images)
        self.num_images = num_images
        self.num_embeddings = num_embeddings
        self.knn_folders = knn_train, knn_val
        self.knn_data = None
        self.inputs: Tensor | None = None
        self.embedded: list[Tensor] = []

    def before_train(self, runner: Runner) -> None:
        """Find the files before time is spent.

        Raises:
            UserError: If there is none, or the model is not QBHeat.
        """
        model = unwrap(runner.model)
        if not isinstance(model, QBHeat) or isinstance(model, RandomMasking):
            raise UserError(
                f'AnalysisHook needs a QBHeat, not a {type(model).__name__}: '
                'remove it from custom_hooks')
        if Normalization.of(model.data_preprocessor) is None:
            raise UserError(
                'AnalysisHook: model.data_preprocessor, a '
                f'{type(model.data_preprocessor).__name__}, does not tell '
                'the channel order of its input')
        if self.files is not None:
            self.files = find_images(self.files)
        train, val = self.knn_folders
        if train is not None:
            from ..evaluation.labelled import labelled_folder

            data = labelled_folder(train)
            self.knn_data = data, val and labelled_folder(val, data.classes)

    def before_train_iter(self,
                          runner: Runner,
                          batch_idx: int,
                          data_batch: dict | None = None) -> None:
        """Take images from the first batches, or files of their size."""
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
        self.embedded += [image.cpu() for image in batch[:max(left, 0)]
                          if image.shape == self.inputs[0].shape]

    def after_train_epoch(self, runner: Runner) -> None:
        """Look, every ``interval`` epochs and after the last."""
        due = self.every_n_epochs(runner, self.interval)
        last = self.is_last_train_epoch(runner)
        if (due or last) and is_main_process():
            self._look(runner)

    def _look(self, runner: Runner) -> None:
        from .reconstruction import reconstruct, strips, trained_positions

        model = unwrap(runner.model)
        normalize = Normalize(Normalization.of(model.data_preprocessor))
        normalize.to(next(model.parameters()).device)
        images = normalize(self.inputs.flip(1))  # batches are BGR
        scalars = self._describe(model, normalize, images)
        runner.visualizer.add_scalars(
            {f'analysis/{name}': value for name, value in scalars.items()},
            step=runner.iter)
        runner.logger.info('AnalysisHook: ' + ', '.join(
            f'{name} {value:.4f}' for name, value in scalars.items()))
        for position in self.positions:
            if position in trained_positions(model):
                runner.visualizer.add_image(
                    f'reconstruction_{position}',
                    strips(reconstruct(model, images, position), model,
                           normalize),
                    step=runner.iter)

    def _describe(self, model: QBHeat, normalize: Normalize,
                  images: Tensor) -> dict[str, float]:
        from ..evaluation.encoder import Encoder
        from ..evaluation.labelled import knn_of_folders
        from .embedding_quality import all_outputs, describe_embeddings
        from .losses import copied_loss, direction_losses, masked_loss
        from .matrices import linear_models
        from .spectrum import describe_predictor

        found = dict(loss=masked_loss(model, images))
        if linear_models(model.predictor):
            found['loss_copied'] = copied_loss(model, images)
        for name, loss in direction_losses(model, images).items():
            found[f'loss_{name.replace("/", "_")}'] = loss
        numbers = describe_predictor(model.predictor)
        numbers.pop('across_scales', None)
        for scale, of_scale in numbers.items():
            found[f'energy_ratio_{scale}'] = of_scale['energy_ratio']
            for matrix in 'AB':
                found[f'norm_{matrix}_{scale}'] = of_scale[matrix][
                    'spectral_norm']
        if len(self.embedded) > 1:
            batches = torch.stack(self.embedded).flip(1).split(32)
            found |= describe_embeddings(model, map(normalize, batches))
        if self.knn_data is not None:
            with evaluating(model), all_outputs(model.backbone):
                encoder = Encoder(model.backbone,
                                  Normalization.of(model.data_preprocessor))
                encoder.to(images.device)
                found['knn_top1'] = knn_of_folders(
                    encoder, *self.knn_data, size=self.inputs.shape[2:])
        return found


def _as_list(values: str | Sequence[str]) -> list[str]:
    return [values] if isinstance(values, str) else list(values)


def _read(files: Sequence[str], size: tuple[int, int]) -> list[Tensor]:
    """Read images (3, H, W), BGR, uint8, as far as they can be decoded."""
    _, images = load_images(files, size)
    return [torch.from_numpy(image).permute(2, 0, 1) for image in images]
