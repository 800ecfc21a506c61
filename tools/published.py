# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write the encoder of a published classifier to a file, for encoder=FILE.

The file holds its weights, settings and input normalization.
"""
import argparse

from qbheat_mm.apis import published_encoder
from qbheat_mm.cli.arguments import target
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.export import export_encoder


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        'name', help='timm/NAME, or a model or config file of mmpretrain')
    parser.add_argument(
        '--weights', metavar='FILE', help='file or URL of its weights; '
        'downloaded by timm or mmpretrain otherwise')
    parser.add_argument('--out', type=target, default='encoder.safetensors',
                        help='defaults to encoder.safetensors')
    args = parser.parse_args()
    encoder = published_encoder(args.name, args.weights)
    export_encoder(encoder, args.out)
    print(f'{encoder.name} written to {args.out} ({encoder.normalization})')


if __name__ == '__main__':
    report_user_errors(main)
