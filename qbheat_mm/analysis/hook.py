# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Log analyses during pre-training.

They are imported on use, to keep `import qbheat_mm` fast.
"""
from collections.abc import Sequence

import torch
from mmengine.dist import is_main_process
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor

from ..datasets import find_images, load_images, spread
from ..errors import UserError
from ..models.selfsup import QBHeat
from ..trained import Encoder, Normalization, Normalize
from ..utils.modules import evaluating, unwrap

#: Scalars to log; the visualizer gets all.
_LOGGED = ('loss', 'loss_copied', 'effective_rank', 'embedding_similarity',
           'token_similarity', 'knn_top1')


@HOOKS.register_module()
class AnalysisHook(Hook):
    """Log losses, matrices, embeddings and reconstructions.

    Every ``interval`` epochs, and after the last, it writes to the backends
    of mmengine's visualizer

    - ``analysis/loss``, ``loss_copied`` and ``loss_half_right`` ... on a few
      fixed images in evaluation mode: :mod:`qbheat_mm.analysis.losses`;
    - ``analysis/norm_A_quarter`` ... and ``energy_ratio_half`` ..., spectral
      norms and E(A) / E(B): :mod:`qbheat_mm.analysis.spectrum`;
    - ``analysis/effective_rank`` and similarities of the embeddings of more
      images: :mod:`qbheat_mm.analysis.embedding_quality`;
    - ``analysis/knn_top1``, k-NN accuracy in percent, given ``knn_train``:
      :mod:`qbheat_mm.evaluation.knn`;
    - pictures ``reconstruction_top_left`` and ``reconstruction_center``:
      original | visible quarter | reconstruction, with nothing taken from
      the masked pixels.

    Training is bit-identical with and without this hook.

    Args:
        interval (int): Epochs between two analyses. Defaults to 1.
        images (str | Sequence[str], optional): Files and folders, scaled and
            cropped to the size of the training images. Defaults to the first
            images of this run, as augmented.
        num_images (int): Images for losses and pictures. Defaults to 4.
        num_embeddings (int): Images to embed, the first ones of this run or
            spread evenly over ``images``; 0 for none. Defaults to 256.
        knn_train (str, optional): Folder of classes; its labels are not used
            for training. Defaults to None.
        knn_val (str, optional): Folder to classify with ``knn_train``.
            Defaults to ``knn_train``, leaving one out.

    Raises:
        UserError: If ``knn_val`` is given without ``knn_train``.
    """

    def __init__(self,
                 interval: int = 1,
                 images: str | Sequence[str] | None = None,
                 num_images: int = 4,
                 num_embeddings: int = 256,
                 knn_train: str | None = None,
                 knn_val: str | None = None) -> None:
        if knn_val is not None and knn_train is None:
            raise UserError(f'AnalysisHook: knn_val={knn_val!r} needs '
                            'knn_train')
        self.interval = interval
        self.files = [images] if isinstance(images, str) else images
        self.num_images = num_images
        self.num_embeddings = num_embeddings
        self.knn_folders = knn_train, knn_val
        self.knn_data = None
        self.images: list[Tensor] = []  # (3, H, W), BGR, uint8

    def before_train(self, runner: Runner) -> None:
        """Find the files before training starts.

        Raises:
            UserError: If there are none, or the model is not a QBHeat that
                predicts pixels.
        """
        model = unwrap(runner.model)
        if not isinstance(model, QBHeat) or not model.with_pixels:
            raise UserError(
                'AnalysisHook needs a QBHeat that predicts pixels, not this '
                f'{type(model).__name__}: remove it from custom_hooks')
        if self.files is not None:
            self.files = find_images(self.files)
        train, val = self.knn_folders
        if train is not None:
            from ..evaluation.labeled import LabeledFolder

            self.knn_data = [LabeledFolder(train)]
            if val is not None:
                self.knn_data.append(
                    LabeledFolder(val, self.knn_data[0].classes))

    def before_train_iter(self,
                          runner: Runner,
                          batch_idx: int,
                          data_batch: dict | None = None) -> None:
        """Keep images of the first batches, or files of their size."""
        if not is_main_process():
            return
        number = max(self.num_images, self.num_embeddings)
        batch = data_batch['inputs'][:number - len(self.images)]
        if self.files is None:
            self.images += [image.cpu() for image in batch]
        elif not self.images:
            _, images = load_images(spread(self.files, number),
                                    tuple(batch[0].shape[1:]))
            for image in images:
                self.images.append(torch.from_numpy(image).permute(2, 0, 1))

    def after_train_epoch(self, runner: Runner) -> None:
        """Analyze every ``interval`` epochs and after the last one."""
        due = self.every_n_epochs(runner, self.interval)
        last = self.is_last_train_epoch(runner)
        if (due or last) and is_main_process():
            self._analyze(runner)

    def _analyze(self, runner: Runner) -> None:
        from .reconstruction import reconstruct, strips, trained_positions

        model = unwrap(runner.model)
        normalize = Normalize(Normalization.of(model))
        normalize.to(next(model.parameters()).device)
        inputs = torch.stack(self.images).flip(1)  # RGB
        images = normalize(inputs[:self.num_images])
        scalars = {**_describe_prediction(model, images),
                   **self._describe_encoder(model, normalize, inputs)}
        runner.visualizer.add_scalars(
            {f'analysis/{name}': value for name, value in scalars.items()},
            step=runner.iter)
        logged = [f'{name} {scalars[name]:.4f}' for name in _LOGGED
                  if name in scalars]
        runner.logger.info(f'AnalysisHook: {", ".join(logged)}')
        for position in {*trained_positions(model)} & {'top_left', 'center'}:
            picture = strips(reconstruct(model, images, position), model,
                             normalize)
            runner.visualizer.add_image(f'reconstruction_{position}', picture,
                                        step=runner.iter)

    def _describe_encoder(self, model: QBHeat, normalize: Normalize,
                          images: Tensor) -> dict[str, float]:
        from ..evaluation.labeled import knn_of_folders
        from .embedding_quality import describe_embeddings, with_tokens

        scalars = {}
        batches = images[:self.num_embeddings].split(32)
        if min(len(images), self.num_embeddings) > 1:
            scalars |= describe_embeddings(model, map(normalize, batches))
        if self.knn_data is not None:
            with evaluating(model):
                encoder = Encoder(with_tokens(model.backbone),
                                  Normalization.of(model))
                scalars['knn_top1'] = knn_of_folders(
                    encoder.to(normalize.mean.device), *self.knn_data,
                    size=images.shape[2:])
        return scalars


def _describe_prediction(model: QBHeat, images: Tensor) -> dict[str, float]:
    from .losses import copied_loss, direction_losses, masked_loss
    from .spectrum import describe_predictor

    scales = describe_predictor(model.predictor)
    scalars = dict(loss=masked_loss(model, images))
    if scales:
        scalars['loss_copied'] = copied_loss(model, images)
    for name, loss in direction_losses(model, images).items():
        scalars[f'loss_{name}'] = loss
    for scale, numbers in scales.items():
        if scale != 'across_scales':
            scalars[f'energy_ratio_{scale}'] = numbers['energy_ratio']
            for name in 'AB':
                scalars[f'norm_{name}_{scale}'] = (
                    numbers[name]['spectral_norm'])
    return scalars
