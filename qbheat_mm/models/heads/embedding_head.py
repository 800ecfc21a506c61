# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A head for encoders that are judged without training anything."""
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor

from ...errors import UserError


@MODELS.register_module()
class EmbeddingHead(BaseModule):
    """Put pooled features into the samples, for ``KNNAccuracy``.

    In mmpretrain's ``ImageClassifier``, after a neck that pools.
    """

    def predict(self, feats: tuple[Tensor],
                data_samples: list | None = None) -> list:
        """Write the last of ``feats``, (B, D), to ``embedding``.

        Raises:
            UserError: If it is not pooled, or there are no samples.
        """
        feats = feats[-1] if isinstance(feats, tuple | list) else feats
        if feats.ndim != 2 or data_samples is None:
            raise UserError(
                f'EmbeddingHead: features of shape {tuple(feats.shape)} are '
                'not (B, D), or come without samples: set model.neck, as '
                "dict(type='PoolWithToken')")
        for sample, feat in zip(data_samples, feats, strict=True):
            sample.set_field(feat, 'embedding')
        return data_samples

    def loss(self, *args, **kwargs) -> dict:
        """Refuse to train.

        Raises:
            UserError: Always.
        """
        raise UserError('EmbeddingHead has nothing to train: use it in '
                        'validation and test')
