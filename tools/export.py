# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Take a trained network elsewhere.

    python tools/export.py CONFIG CHECKPOINT --format FORMAT --out FILE

safetensors   the encoder's weights, with what it is and its normalization
torchvision   the weights of a ResNet or ConvNeXt under torchvision's names
timm          the same under timm's
pt2           encoder, classifier or detector for torch.export.load
onnx          the same for ONNX Runtime and others

What is written is run and compared with PyTorch. docs/export.md says what the
inputs and outputs are.
"""
import argparse

from qbheat_mm.apis import Encoder, load_encoder
from qbheat_mm.cli import count, read_config, report_user_errors
from qbheat_mm.cli.command_line import add_cfg_options, target
from qbheat_mm.errors import UserError
from qbheat_mm.export import (
    Source,
    export_encoder,
    export_network,
    export_state_dict,
    load_model,
)
from qbheat_mm.utils.settings import toolbox, type_name

GRAPHS = ('pt2', 'onnx')
LIBRARIES = ('torchvision', 'timm')
FORMATS = ('safetensors', *LIBRARIES, *GRAPHS)
ENDINGS = dict(
    dict.fromkeys(LIBRARIES, ('.pth', '.pt', '.safetensors')),
    safetensors=('.safetensors', ), pt2=('.pt2', ), onnx=('.onnx', ))


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', help='configuration file')
    parser.add_argument('checkpoint', help='its checkpoint, file or URL')
    parser.add_argument('--format', required=True, choices=FORMATS)
    parser.add_argument(
        '--out', required=True, type=target, help='file to write')
    parser.add_argument(
        '--part', choices=('model', 'encoder'), default='model',
        help='pt2, onnx: all of the model, or its encoder alone; of '
        'pre-training always the encoder')
    parser.add_argument(
        '--out-indices', type=int, nargs='+', metavar='N',
        help="pt2, onnx: outputs of the encoder; by default a MobileFormer's "
        'last features and tokens, of others those of the configuration')
    parser.add_argument(
        '--size', type=count, nargs=2, metavar=('HEIGHT', 'WIDTH'),
        help='pt2, onnx: of all images; by default any')
    parser.add_argument(
        '--with-preprocessing', action='store_true',
        help='pt2, onnx: images are (B, H, W, 3), RGB, uint8')
    add_cfg_options(parser)
    return parser.parse_args()


def check_arguments(args: argparse.Namespace) -> None:
    """Raise UserError for options that do not go with the format."""
    endings = ENDINGS[args.format]
    if not args.out.endswith(endings):
        raise UserError(f"--out '{args.out}' must end in "
                        f'{" or ".join(endings)} for --format {args.format}')
    given = [name for name, value in (
        ('--size', args.size), ('--out-indices', args.out_indices),
        ('--with-preprocessing', args.with_preprocessing)) if value]
    if given and args.format not in GRAPHS:
        raise UserError(f'{given[0]} is for --format pt2 and onnx; '
                        f'{args.format} holds weights alone')


def load(args: argparse.Namespace) -> Encoder | Source:
    """The encoder, or all of a classifier or detector.

    Raises:
        UserError: If it cannot be loaded.
    """
    cfg = read_config(args.config, args.cfg_options)
    if 'module' in cfg.model:  # a configuration with test-time augmentation
        cfg.model = cfg.model['module']
    whole = args.part == 'model' and args.format in GRAPHS and (
        toolbox(cfg) == 'mmdet' or type_name(cfg.model) == 'ImageClassifier')
    if not whole:
        return load_encoder(args.checkpoint, cfg, args.out_indices)
    if args.out_indices:
        raise UserError('--out-indices is for encoders: add --part encoder')
    return load_model(cfg, args.checkpoint)


def main() -> None:
    args = parse_args()
    check_arguments(args)
    network = load(args)
    if args.format == 'safetensors':
        export_encoder(network, args.out)
        print(f'encoder of {args.checkpoint} written to {args.out}')
    elif args.format in LIBRARIES:
        difference = export_state_dict(network, args.out, args.format)
        print(f'encoder of {args.checkpoint} written to {args.out}; loaded '
              f'strictly by {args.format}, largest relative difference of '
              f'its features {difference:.1e}')
    else:
        written = export_network(
            network, args.out, args.size and tuple(args.size),
            args.with_preprocessing)
        print(f'{written.kind} written to {args.out}: '
              f'{", ".join(written.facts["inputs"])} -> '
              f'{", ".join(written.facts["outputs"])}\n'
              'largest relative difference from PyTorch: '
              f'{written.difference:.1e} at {", ".join(written.compared)} '
              '(images x height x width)')


if __name__ == '__main__':
    report_user_errors(main)
