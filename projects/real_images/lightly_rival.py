# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Let LightlyTrain distill EfficientNet-Lite0 into MF-285M, as a rival.

Settings are LightlyTrain's for its distillation (version 3), but for the
crops, the batch and the length, which are those of the recipe at its ten
minutes. Needs `pip install lightly-train`. Prints CPU seconds.
"""
import argparse
import tempfile
import time
from pathlib import Path

import lightly_train
import torch
from mmpretrain.registry import MODELS
from torch import Tensor, nn

from qbheat_mm.export import export_encoder
from qbheat_mm.trained import Encoder, load_encoder
from qbheat_mm.trained.normalization import Normalization

TEACHER = 'data/lite0.safetensors'
NETWORK = dict(type='MobileFormer', arch='mf-285m')


class Network(nn.Module):
    """A network with the methods that LightlyTrain calls.

    LightlyTrain's own wrapper of timm takes the map before the last layer of
    EfficientNets, of fewer channels than it expects.
    """

    def __init__(self, network: nn.Module, channels: int) -> None:
        super().__init__()
        self.network = network
        self.channels = channels

    def get_model(self) -> nn.Module:
        """The network to store."""
        return self.network

    def feature_dim(self) -> int:
        """Channels of the last map."""
        return self.channels

    def forward_features(self, x: Tensor) -> dict[str, Tensor]:
        """Encode images (B, 3, H, W)."""
        return dict(features=self.network(x)[-1])

    def forward_pool(self, x: dict[str, Tensor]) -> dict[str, Tensor]:
        """Average the positions."""
        return dict(pooled_features=x['features'].mean((2, 3), keepdim=True))


def main() -> None:
    """Train and write the encoder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('folder', help='training images')
    parser.add_argument('dst', help='file to write, .safetensors')
    parser.add_argument('--steps', type=int, required=True)
    parser.add_argument('--seed', type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    student = MODELS.build(NETWORK)
    student.init_weights()
    teacher = load_encoder(TEACHER).backbone
    began = time.process_time()
    with tempfile.TemporaryDirectory() as out:
        lightly_train.pretrain(
            out=Path(out, 'run'), data=args.folder,
            model=Network(student, 720), method='distillationv3',
            method_args=dict(teacher=Network(teacher, 1280)),
            batch_size=64, num_workers=0, seed=args.seed, accelerator='cpu',
            precision='32-true', trainer_args=dict(max_steps=args.steps),
            transform_args=dict(
                image_size=(128, 128),
                normalize=dict(mean=(0.5, ) * 3, std=(0.5, ) * 3)))
    print(f'{time.process_time() - began:.0f} CPU seconds')
    encoder = Encoder(
        student.eval(), Normalization((127.5, ) * 3, (127.5, ) * 3),
        'mf-285m', (128, 128), NETWORK, args.dst)
    export_encoder(encoder, args.dst)


if __name__ == '__main__':
    main()
