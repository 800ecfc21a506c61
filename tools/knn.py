# Copyright (c) QB-Heat MM authors. All rights reserved.
"""k-NN accuracy of an encoder's embeddings.

Each image of VAL is classified by its 20 nearest images of TRAIN, by cosine
similarity. Nothing is trained. Both are folders of classes, as
FOLDER/CLASS/image.jpg.
"""
import argparse
import json

import torch
from mmengine.utils import ProgressBar

from qbheat_mm.apis import Encoder, build_encoder, load_encoder
from qbheat_mm.cli.arguments import (
    add_cfg_options,
    add_embedding_arguments,
    count,
    positive,
    target,
)
from qbheat_mm.cli.embeddings import embedding_options
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.config.reading import read_config
from qbheat_mm.errors import UserError
from qbheat_mm.evaluation.labeled import LabeledFolder, knn_of_folders
from qbheat_mm.utils.atomic_write import atomic_write


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        'encoder', help='encoder.safetensors, a checkpoint, or a config (.py) '
        'whose encoder is initialized by its model.backbone.init_cfg')
    parser.add_argument('train', help='folder of classes: the neighbors')
    parser.add_argument(
        'val', nargs='?', help='folder of classes to classify; defaults to '
        'TRAIN, each image by all the others')
    parser.add_argument(
        '--k', type=count, default=20, help='neighbors; defaults to 20')
    parser.add_argument(
        '--temperature', type=positive, default=0.07,
        help='softmax temperature of the votes; defaults to 0.07')
    parser.add_argument(
        '--seed', type=int, default=0,
        help='seed of the random weights of a config; defaults to 0')
    parser.add_argument(
        '--out', type=target, metavar='FILE.json',
        help='also write the result to a file')
    add_cfg_options(parser)
    add_embedding_arguments(parser)
    return parser.parse_args()


def find_encoder(args: argparse.Namespace) -> Encoder:
    """Load an encoder from a checkpoint, or build it from a config."""
    if not args.encoder.endswith('.py'):
        if args.cfg_options:
            raise UserError('--cfg-options change a config, but '
                            f"'{args.encoder}' is a checkpoint")
        return load_encoder(args.encoder, args.config, device=args.device)
    if args.config:
        raise UserError(f"--config is for checkpoints, but '{args.encoder}' "
                        'is a config: omit one')
    torch.manual_seed(args.seed)
    cfg = read_config(args.encoder, args.cfg_options)
    return build_encoder(cfg, args.encoder).to(args.device)


def main() -> None:
    args = parse_args()
    train = LabeledFolder(args.train)
    val = LabeledFolder(args.val, train.classes) if args.val else None
    encoder = find_encoder(args)
    bar = ProgressBar(len(train) + len(val or ()))
    top1 = knn_of_folders(encoder, train, val, args.k, args.temperature,
                          watch=bar.update, **embedding_options(args))
    result = dict(
        vars(args), top1=top1, left_out=bar.task_num - bar.completed,
        k=min(args.k, len(train) - (val is None)),
        weights=encoder.checkpoint or f'random weights, seed {args.seed}')
    print(f'\nk-NN accuracy: {top1:.2f} % (k={result["k"]}, '
          f'temperature={args.temperature}, pool={args.pool}) of '
          f'{len(val or train)} images by {len(train)} of '
          f'{len(train.classes)} classes, {result["left_out"]} skipped, '
          f'{encoder.name}, {result["weights"]}')
    if args.out:
        with atomic_write(args.out) as part, open(part, 'w') as file:
            json.dump(result, file)


if __name__ == '__main__':
    report_user_errors(main)
