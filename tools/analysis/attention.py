# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Attention between pixels and tokens, for any block, head and token.

--also adds further encoders, with their own configs, to the figures.
"""
import argparse
from collections import defaultdict

import numpy as np

from qbheat_mm.analysis import attention
from qbheat_mm.analysis.embedding_quality import mean_similarity
from qbheat_mm.cli.analysis_tool import load_encoders, to_batch
from qbheat_mm.cli.arguments import analysis_parser, count
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.report import Report, Table

CAPTION = (
    'Mobile → Former: where a token looks (sums to 1 over the pixels; each '
    'map is scaled to its own maximum). Former → Mobile: which token a pixel '
    'reads (sums to 1 over the tokens). Look for tokens whose maps differ, '
    'which the paper calls diverse; equal maps mean that they have collapsed '
    'into one. A map that follows an outline is not a segmentation, and says '
    'nothing about why a probe predicts a class. Blocks count from 1, the '
    'lite bottlenecks included.')


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    parser = analysis_parser(__doc__, compare=True)
    for option, default in (
            ('--blocks', 'the last of each stage and the middle of the last'),
            ('--heads', 'all'), ('--tokens', 'all')):
        parser.add_argument(
            option, type=count, nargs='+', metavar='N',
            help=f'numbers from 1; defaults to {default}')
    return parser.parse_args(argv)


def to_rows(blocks: dict[int, np.ndarray], args: argparse.Namespace) -> dict:
    """Choose heads and tokens of maps (heads, T, H, W) by block."""
    num_heads, num_tokens = next(iter(blocks.values())).shape[:2]
    tokens = args.tokens or range(1, num_tokens + 1)
    rows = {}
    for block, maps in blocks.items():
        for head in args.heads or range(1, num_heads + 1):
            rows[f'block {block}\nhead {head}'] = {
                token: maps[head - 1, token - 1] for token in tokens}
    return rows


def main(argv: list[str] | None = None) -> None:
    args = parse_args(argv)
    encoders, files, images = load_encoders(args)
    figures, arrays, similarities = {}, {}, defaultdict(list)
    for number, image in enumerate(images, start=1):
        rows = {bridge: {} for bridge in attention.BRIDGES}
        for name, encoder in encoders.items():
            all_maps = attention.attention_maps(
                encoder.backbone, encoder.normalize(to_batch([image])))
            blocks = args.blocks or attention.default_blocks(encoder.backbone)
            for bridge in attention.BRIDGES:
                maps = {}
                for block in sorted(blocks):
                    values = all_maps[block][bridge][0].float().cpu()
                    maps[block] = values.numpy()
                    arrays[f'{bridge}_{number}_{name}_block{block}'] = (
                        maps[block])
                    similarities[bridge, block, name] += mean_similarity(
                        values.flatten(2)).tolist()
                rows[bridge][name] = to_rows(maps, args)
        for bridge in attention.BRIDGES:
            name = f'attention_{bridge}_{number:02d}'
            figures[name] = attention.draw_attention(
                bridge, image[..., ::-1], rows[bridge])
    table = Table(
        'Similarity of the tokens\' maps (mean cosine over images and heads; '
        '1 if all tokens do the same)',
        ['bridge', 'block', 'model', 'similarity'],
        [[attention.BRIDGES[bridge], block, name, float(np.mean(values))]
         for (bridge, block, name), values in sorted(similarities.items())])
    report = Report('attention', 'Attention between pixels and tokens',
                    CAPTION, [table], numbers=dict(images=files))
    report.save(args.out, figures, arrays)


if __name__ == '__main__':
    report_user_errors(main)
