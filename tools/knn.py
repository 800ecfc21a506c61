# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Accuracy of the nearest neighbors of an encoder's embeddings.

The images of VAL are classified by the 20 images of TRAIN that are nearest
by cosine similarity. Nothing is trained. Both are folders of classes, as
FOLDER/CLASS/image.jpg.
"""
import argparse
import json

import torch
from mmengine.utils import ProgressBar

from qbheat_mm.apis import build_encoder, load_encoder
from qbheat_mm.cli import count, read_config, report_user_errors
from qbheat_mm.cli.command_line import (
    add_cfg_options,
    positive,
    target,
)
from qbheat_mm.cli.embeddings import (
    add_embedding_arguments,
    embedding_options,
)
from qbheat_mm.errors import UserError
from qbheat_mm.evaluation.encoder import Encoder
from qbheat_mm.evaluation.knn import TEMPERATURE, K
from qbheat_mm.evaluation.labelled import knn_of_folders, labelled_folder
from qbheat_mm.utils.atomic_write import atomic_write


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        'encoder', help='checkpoint, or a configuration (.py), whose encoder '
        'is initialized as its model.backbone.init_cfg says')
    parser.add_argument('train', help='folder of classes: the neighbors')
    parser.add_argument(
        'val', nargs='?', help='folder of classes: what is classified; by '
        'default TRAIN, each image by all the others')
    parser.add_argument(
        '--k', type=count, default=K, help=f'neighbors; defaults to {K}')
    parser.add_argument(
        '--temperature', type=positive, default=TEMPERATURE,
        help=f'of their weights; defaults to {TEMPERATURE}')
    parser.add_argument(
        '--seed', type=int, default=0,
        help='of an encoder that the configuration leaves random; defaults '
        'to 0')
    parser.add_argument(
        '--config', help='configuration, for a checkpoint of bare weights: a '
        'file or a name of ours')
    parser.add_argument(
        '--out', type=target, metavar='FILE.json',
        help='write the number, too')
    add_cfg_options(parser)
    add_embedding_arguments(parser)
    return parser.parse_args()


def find_encoder(args: argparse.Namespace) -> Encoder:
    """The encoder of a checkpoint or of a configuration.

    Raises:
        UserError: If it cannot be had.
    """
    if args.encoder.endswith('.py'):
        if args.config:
            raise UserError(f"--config is of a checkpoint, and '{args.encoder}"
                            "' is a configuration: leave one out")
        torch.manual_seed(args.seed)
        cfg = read_config(args.encoder, args.cfg_options)
        return build_encoder(cfg, args.encoder).to(args.device)
    if args.cfg_options:
        raise UserError("--cfg-options change a configuration, and "
                        f"'{args.encoder}' is none")
    return load_encoder(args.encoder, args.config, device=args.device)


def main() -> None:
    """Embed and classify."""
    args = parse_args()
    train = labelled_folder(args.train)
    val = args.val and labelled_folder(args.val, train.classes)
    encoder = find_encoder(args)
    weights = encoder.weights or f'random weights, seed {args.seed}'
    bar = ProgressBar(len(train) + (len(val) if val else 0))
    top1 = knn_of_folders(encoder, train, val or None, args.k,
                          args.temperature, watch=bar.update,
                          **embedding_options(args))
    left_out = bar.task_num - bar.completed
    k = min(args.k, len(train) - (not val))
    print(f'\nk-NN accuracy: {top1:.2f} % (k={k}, '
          f'temperature={args.temperature}, pool={args.pool}) of '
          f'{len(val or train)} images by {len(train)} of '
          f'{len(train.classes)} classes' +
          (f', {left_out} of them left out' if left_out else '') +
          f', {encoder.name}, {weights}')
    if args.out:
        with atomic_write(args.out) as part, open(part, 'w') as file:
            json.dump(dict(
                top1=top1, k=k, temperature=args.temperature,
                pool=args.pool, size=args.size, encoder=args.encoder,
                config=args.config, cfg_options=args.cfg_options or {},
                weights=weights, train=args.train, val=args.val,
                left_out=left_out), file)


if __name__ == '__main__':
    report_user_errors(main)
