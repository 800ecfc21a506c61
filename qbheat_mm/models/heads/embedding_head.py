# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A head for evaluation without training, such as k-NN."""
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor

from ...errors import UserError


@MODELS.register_module()
class EmbeddingHead(BaseModule):
    """Store pooled features in the data samples, for ``KNNAccuracy``.

    For mmpretrain's ``ImageClassifier``, after a neck that pools.
    """

    def predict(self, feats: tuple[Tensor],
                data_samples: list | None = None) -> list:
        """Store the last of ``feats``, (B, D), as ``embedding``.

        Raises:
            UserError: If it is not pooled, or there are no samples.
        """
        feats = feats[-1] if isinstance(feats, tuple | list) else feats
        if feats.ndim != 2 or data_samples is None:
            raise UserError(
                f'EmbeddingHead needs features (B, D) with data samples, not '
                f'{tuple(feats.shape)}: set model.neck, e.g. to '
                "dict(type='PoolWithToken')")
        for sample, feat in zip(data_samples, feats, strict=True):
            sample.set_field(feat, 'embedding')
        return data_samples

    def loss(self, *args, **kwargs) -> dict:
        """Not available: there is nothing to train.

        Raises:
            UserError: Always.
        """
        raise UserError('EmbeddingHead has nothing to train: use it in '
                        'validation and test')
