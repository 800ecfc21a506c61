# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Export a trained network for other programs.

    python tools/export.py CONFIG CHECKPOINT --format FORMAT --out FILE
    python tools/export.py --head NAME=RUN --head ... --format FORMAT \
        --out FILE

safetensors   the encoder's weights, architecture and normalization
pt2           encoder, classifier or detector for torch.export.load, or
              several heads on one frozen encoder, which runs once
onnx          the same for ONNX Runtime and others

The written file is run and compared with PyTorch. See docs/export.md for the
inputs and outputs.
"""
import argparse

from torch import nn

from qbheat_mm.apis import load_encoder
from qbheat_mm.cli.arguments import (
    add_cfg_options,
    add_heads,
    count,
    find_checkpoint,
    target,
)
from qbheat_mm.cli.head_option import heads_of
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.config.reading import read_config
from qbheat_mm.errors import UserError
from qbheat_mm.export import export_encoder, export_network, load_model
from qbheat_mm.utils.settings import toolbox, type_name

NETWORKS = ('pt2', 'onnx')
FORMATS = ('safetensors', *NETWORKS)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', nargs='?', help='config file')
    parser.add_argument(
        'checkpoint', nargs='?',
        help='its checkpoint: file, URL or work folder')
    add_heads(parser)
    parser.add_argument('--format', required=True, choices=FORMATS)
    parser.add_argument(
        '--out', required=True, type=target, help='file to write')
    parser.add_argument(
        '--embedding', action='store_true',
        help='--head: also output the mean of the last features, as '
        'tools/embed.py does')
    parser.add_argument(
        '--part', choices=('model', 'encoder'), default='model',
        help='pt2, onnx: the whole model or only its encoder; always the '
        'encoder for pre-training')
    parser.add_argument(
        '--out-indices', type=int, nargs='+', metavar='N',
        help="pt2, onnx: outputs of the encoder; defaults to a MobileFormer's "
        "last features and tokens, and to the config's for others")
    parser.add_argument(
        '--size', type=count, nargs=2, metavar=('HEIGHT', 'WIDTH'),
        help='pt2, onnx: size of all images; defaults to any size')
    parser.add_argument(
        '--with-preprocessing', action='store_true',
        help='pt2, onnx: take images as (B, H, W, 3), RGB, uint8')
    parser.add_argument(
        '--unpadded', action='store_true',
        help='pt2, onnx: detectors take no image_sizes; images of a batch '
        'have one size, which saves a fifth of the time of MF-Dec')
    add_cfg_options(parser)
    return parser.parse_args()


def check_arguments(args: argparse.Namespace) -> None:
    """Raise UserError for options that exclude each other."""
    if args.heads:
        refuse('does not go with --head, which names config and checkpoint of '
               'each head', {'CONFIG': args.config,
                             '--part encoder': args.part == 'encoder',
                             '--out-indices': args.out_indices,
                             '--cfg-options': args.cfg_options})
    elif args.checkpoint is None:
        raise UserError('give CONFIG and CHECKPOINT, or heads on one encoder '
                        'by --head NAME=RUN')
    elif args.embedding:
        raise UserError('--embedding is for --head; alone it is an output '
                        'of --part encoder')
    if not args.out.endswith(f'.{args.format}'):
        raise UserError(f"--out '{args.out}' must end in .{args.format}")
    if args.format not in NETWORKS:
        refuse(f'is for --format pt2 and onnx; {args.format} contains only '
               "the encoder's weights", {
                   '--head': args.heads, '--size': args.size,
                   '--out-indices': args.out_indices,
                   '--with-preprocessing': args.with_preprocessing,
                   '--unpadded': args.unpadded})


def refuse(reason: str, options: dict) -> None:
    """Raise UserError if one of the options is given."""
    for name, value in options.items():
        if value:
            raise UserError(f'{name} {reason}')


def load(args: argparse.Namespace) -> nn.Module:
    """Load the encoder, the whole classifier or detector, or the heads.

    Raises:
        UserError: If the options don't apply to it.
    """
    if args.heads:
        return heads_of(args.heads)
    cfg = read_config(args.config, args.cfg_options)
    checkpoint = find_checkpoint(args.checkpoint, 'checkpoint')
    if 'module' in cfg.model:  # a config with test-time augmentation
        cfg.model = cfg.model['module']
    whole = args.part == 'model' and args.format in NETWORKS and (
        toolbox(cfg) == 'mmdet' or type_name(cfg.model) == 'ImageClassifier')
    if not whole:
        return load_encoder(checkpoint, cfg, args.out_indices)
    if args.out_indices:
        raise UserError('--out-indices is for encoders: add --part encoder')
    return load_model(cfg, checkpoint)


def report_transforms(facts: dict) -> None:
    """Say how images are prepared for the file, which does not do so."""
    pipelines = []
    for name, part in facts.get('heads', {'': facts}).items():
        steps = []
        for step in part.get('transforms', ()):
            options = [f'{key}={value}' for key, value in step.items()
                       if key != 'type']
            steps.append(f'{step["type"]}({", ".join(options)})')
        if steps and steps not in pipelines:
            pipelines.append(steps)
            owner = f" of head '{name}'" if name else ''
            print(f'prepare images first, as the test pipeline{owner} does: '
                  f'{", ".join(steps)}')
    if len(pipelines) > 1:
        print('these differ, but all heads see the same images: expect lower '
              'accuracy from heads that were tested at another size')


def main() -> None:
    args = parse_args()
    check_arguments(args)
    model = load(args)
    if args.format == 'safetensors':
        export_encoder(model, args.out)
        print(f'encoder of {args.checkpoint} written to {args.out}')
    else:
        facts = export_network(model, args.out, args.size,
                               args.with_preprocessing, args.embedding,
                               not args.unpadded)
        report_transforms(facts)
        print(f'{facts["kind"]} written to {args.out}: '
              f'{", ".join(facts["inputs"])} -> '
              f'{", ".join(facts["outputs"])}\n'
              'largest relative difference from PyTorch: '
              f'{facts["difference"]:.1e}')


if __name__ == '__main__':
    report_user_errors(main)
