# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Several heads on one encoder as a function of tensors."""
from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from ..errors import UserError
from ..models.backbones import MobileFormer
from ..trained.heads import Heads
from .network import IMAGES, SIZES, Network

#: The output that holds the pooled features.
EMBEDDING = 'embedding'


class HeadsNetwork(Network):
    """Run an encoder once, and all heads on its features.

    Outputs are named ``HEAD.OUTPUT``, e.g. ``classes.logits`` and
    ``boxes.scores``.

    Args:
        heads (Heads): The encoder and its heads.
        networks (Mapping[str, Network]): A network of each head's features.
        embedding (bool): Whether to return the mean of the encoder's last
            features, (B, C), as ``embedding``. Defaults to False.

    Raises:
        UserError: If ``embedding`` is set and no head takes the last
            features.
    """
    kind = 'multi-head network'

    def __init__(self, heads: Heads, networks: Mapping[str, Network],
                 embedding: bool = False) -> None:
        super().__init__(heads.encoder)
        self.embedding = embedding
        self.levels = dict(heads.outputs)
        self.networks = nn.ModuleDict(networks)
        self.stride = 0
        for name, network in networks.items():
            self.stride = max(self.stride, network.stride)
            if SIZES in network.inputs:
                self.inputs = (IMAGES, SIZES)
            for output in network.outputs:
                self.outputs += (f'{name}.{output}', )
        if embedding:
            _require_last_features(heads.encoder.backbone)
            self.outputs += (EMBEDDING, )
        self.eval()

    def encode(self, images: Tensor) -> tuple[Tensor, ...]:
        """Normalized images (B, 3, H, W) to the features of all heads."""
        return self.model(images)

    def decode(self, feats: tuple[Tensor, ...], shape: Sequence[int],
               image_sizes: Tensor | None = None) -> dict[str, Tensor]:
        """Run the heads."""
        outputs = {}
        for name, network in self.networks.items():
            levels = tuple(feats[i] for i in self.levels[name])
            decoded = network.decode(levels, shape, image_sizes)
            for output, value in decoded.items():
                outputs[f'{name}.{output}'] = value
        if self.embedding:
            outputs[EMBEDDING] = self.model.pool(feats)
        return outputs


def _require_last_features(backbone: nn.Module) -> None:
    """Raise UserError if a ``MobileFormer`` leaves its last features out."""
    if isinstance(backbone, MobileFormer) and (
            backbone.num_stages not in backbone.out_indices):
        raise UserError(
            'there is no embedding, since no head takes the last features: '
            f'out_indices of the heads are {backbone.out_indices}, without '
            f'{backbone.num_stages}')
