# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Attention between pixels and tokens, for any block, head and token.

--also puts a second encoder (with its own configuration) beside the first.
"""
import argparse
from collections import defaultdict

import numpy as np

from qbheat_mm.analysis.attention import (
    BRIDGES,
    BlockMaps,
    attention_maps,
    default_blocks,
    token_similarity,
)
from qbheat_mm.analysis.figures.attention import Panel, draw_attention
from qbheat_mm.analysis.report import Report, Table
from qbheat_mm.apis import load_encoder
from qbheat_mm.cli import read_config, report_user_errors
from qbheat_mm.cli.analysis_tool import (
    add_further_models,
    analysis_parser,
    as_batch,
    further_models,
    print_tables,
    read_images,
    read_settings,
    write,
)
from qbheat_mm.errors import UserError

CAPTION = (
    'Mobile → Former attention sums to 1 over the pixels and shows where a '
    'token looks (each map scaled to its own maximum). Former → Mobile '
    'attention sums to 1 over the tokens and shows what each pixel reads. '
    'Blocks are counted from 1, the lite bottlenecks included. Low similarity '
    'of the tokens\' maps is what the paper calls diverse.')

NAMES = dict(mobile_to_former='Mobile → Former',
             former_to_mobile='Former → Mobile')


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = analysis_parser(__doc__)
    add_further_models(parser)
    parser.add_argument(
        '--blocks', type=int, nargs='+', metavar='N',
        help='numbers of blocks, from 1; by default the last of each '
        'resolution and one amid the last resolution')
    parser.add_argument(
        '--heads', type=int, nargs='+', metavar='N',
        help='numbers of heads, from 1; by default all')
    parser.add_argument(
        '--tokens', type=int, nargs='+', metavar='N',
        help='numbers of tokens, from 1; by default all')
    return parser.parse_args()


def choose(wanted: list | None, known: list, option: str) -> list:
    """The asked-for numbers, or all; an error for one that is not there."""
    missing = [number for number in wanted or () if number not in known]
    if missing:
        raise UserError(f'{option} {missing[0]}: there are '
                        f'{", ".join(map(str, known))}')
    return list(wanted or known)


def pick(found: list[BlockMaps], args,
         blocks: list[int]) -> tuple[list[BlockMaps], list, list]:
    """The blocks, heads and tokens that were asked for."""
    numbers = choose(blocks, [block.block for block in found],
                     '--blocks')
    heads, tokens = next(iter(found[0].maps.values())).shape[1:3]
    return ([block for block in found if block.block in numbers],
            choose(args.heads, list(range(1, heads + 1)), '--heads'),
            choose(args.tokens, list(range(1, tokens + 1)), '--tokens'))


def panels_of(blocks: list[BlockMaps], bridge: str, heads: list,
              tokens: list) -> list[Panel]:
    """One row of maps for each block and head, of the first image."""
    index = [token - 1 for token in tokens]
    return [
        Panel(f'block {block.block}\nhead {head}', tokens,
              block.maps[bridge][0, head - 1, index].cpu().numpy())
        for block in blocks for head in heads
    ]


def similarity_table(similarities: dict) -> Table:
    """Means over images and heads, one column for each model."""
    models = list(similarities)
    rows = {key for found in similarities.values() for key in found}
    table = Table(
        'Similarity of the tokens\' maps (mean cosine over images and heads; '
        '1 if all tokens do the same)', ['bridge', 'block', *models])
    for bridge, block in sorted(rows, key=lambda row: (
            BRIDGES.index(row[0]), row[1])):
        table.rows.append([NAMES[bridge], block, *(
            float(np.mean(similarities[model].get((bridge, block), np.nan)))
            for model in models)])
    return table


def look(models: dict, images: list, args) -> tuple[dict, dict, dict]:
    """Figures, arrays, and similarities by model, bridge and block."""
    figures, arrays = {}, {}
    similarities = {name: defaultdict(list) for name in models}
    for number, image in enumerate(images, start=1):
        panels = {bridge: {} for bridge in BRIDGES}
        for name, encoder in models.items():
            blocks, heads, tokens = pick(
                attention_maps(encoder.backbone, encoder.normalize(
                    as_batch([image]).flip(1).to(args.device))), args,
                args.blocks or default_blocks(encoder.backbone))
            for bridge in BRIDGES:
                panels[bridge][name] = panels_of(blocks, bridge, heads, tokens)
                for block in blocks:
                    maps = block.maps[bridge].cpu()
                    similarities[name][bridge, block.block] += (
                        token_similarity(maps)[0].tolist())
                    arrays[f'{bridge}_{number}_{name}_block{block.block}'
                           ] = maps[0].float().numpy()
        for bridge in BRIDGES:
            figures[f'attention_{bridge}_{number:02d}'] = draw_attention(
                bridge, image[..., ::-1], panels[bridge])
    return figures, arrays, similarities


def main() -> None:
    """Look at attention."""
    args = parse_args()
    cfg = read_settings(args)
    files, images = read_images(args, cfg, 32)
    models, sources = {}, []
    for name, config, checkpoint in further_models(args):
        settings = cfg if config == args.config else read_config(config)
        models[name] = load_encoder(checkpoint, settings, device=args.device)
        sources.append(dict(name=name, config=config, checkpoint=checkpoint))
    figures, arrays, similarities = look(models, images, args)
    report = Report(
        'attention', 'Attention between pixels and tokens', CAPTION,
        tables=[similarity_table(similarities)],
        numbers=dict(similarity_of_images_and_heads=[
            dict(model=name, bridge=bridge, block=block, values=found)
            for name, by_row in similarities.items()
            for (bridge, block), found in by_row.items()]),
        source=dict(config=args.config, checkpoint=args.checkpoint,
                    models=sources, images=files))
    write(args.out, report, figures, arrays)
    print_tables(report)


if __name__ == '__main__':
    report_user_errors(main)
