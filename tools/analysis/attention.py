# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Attention between pixels and tokens, for any block, head and token.

--also puts a second encoder (with its own configuration) beside the first.
"""
import os.path as osp

import numpy as np

from qbheat_mm.analysis.attention import (
    BRIDGES,
    attention_maps,
    default_blocks,
    token_similarity,
)
from qbheat_mm.analysis.figures.attention import Panel, draw_attention
from qbheat_mm.analysis.report import Report, Table
from qbheat_mm.errors import UserError
from qbheat_mm.launching import read_config, report_user_errors
from qbheat_mm.launching.analysis_tool import (
    add_further_models,
    analysis_parser,
    as_batch,
    further_models,
    print_tables,
    read_images,
    read_settings,
    write,
)
from qbheat_mm.launching.trained_model import load_encoder

CAPTION = (
    'Mobile → Former attention sums to 1 over the pixels and shows where a '
    'token looks (each map scaled to its own maximum). Former → Mobile '
    'attention sums to 1 over the tokens and shows what each pixel reads. '
    'Blocks are counted from 1, the lite bottlenecks included. The similarity '
    'of tokens is the mean cosine of two tokens\' maps: 1 if all are the '
    'same; low is what the paper calls diverse.')


def parse_args(argv=None):
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
    return parser.parse_args(argv)


def choose(wanted: list | None, known: list, option: str) -> list:
    """The asked-for numbers, or all; an error for one that is not there."""
    missing = [number for number in wanted or () if number not in known]
    if missing:
        raise UserError(f'{option} {missing[0]}: there are '
                        f'{", ".join(map(str, known))}')
    return list(wanted or known)


def panels_of(found: list, bridge: str, args) -> tuple[list, list, list]:
    """Maps to draw, token numbers, and rows of the similarity table."""
    panels, rows, tokens = [], [], []
    for block in found:
        maps = block.maps[bridge][0].cpu()
        heads = choose(args.heads, list(range(1, len(maps) + 1)), '--heads')
        tokens = choose(args.tokens, list(range(1, maps.shape[1] + 1)),
                        '--tokens')
        similarity = token_similarity(maps[None])[0]
        for head in heads:
            picked = maps[head - 1][[token - 1 for token in tokens]]
            panels.append(Panel(f'block {block.block}\nhead {head}',
                                picked.numpy()))
            rows.append([block.block, head, float(similarity[head - 1])])
    return panels, tokens, rows


def main(argv=None) -> None:
    """Look at attention."""
    args = parse_args(argv)
    cfg = read_settings(args)
    files, images = read_images(args, cfg, 32)
    names = dict(mobile_to_former='Mobile → Former',
                 former_to_mobile='Former → Mobile')
    table = Table('Similarity of the tokens\' maps', [
        'image', 'model', 'bridge', 'block', 'head', 'similarity'])
    models, sources = {}, []
    for name, config, checkpoint in further_models(args):
        settings = cfg if config == args.config else read_config(config)
        models[name] = load_encoder(settings, config, checkpoint)
        models[name].to(args.device)
        sources.append(dict(name=name, config=config, checkpoint=checkpoint))

    figures, arrays = {}, {}
    for number, (file, image) in enumerate(zip(files, images), start=1):
        found = {}
        for name, encoder in models.items():
            maps = attention_maps(
                encoder.backbone,
                encoder.pixels.normalize(as_batch([image])))
            numbers = choose(args.blocks or default_blocks(encoder.backbone),
                             [block.block for block in maps], '--blocks')
            found[name] = [block for block in maps if block.block in numbers]
        for bridge in BRIDGES:
            panels = {}
            for name, blocks in found.items():
                panels[name], tokens, rows = panels_of(blocks, bridge, args)
                table.rows += [[osp.basename(file), name, names[bridge], *row]
                               for row in rows]
                for block in blocks:
                    key = f'{bridge}_{number}_{name}_block{block.block}'
                    arrays[key.replace('/', '_')] = block.maps[bridge][
                        0].cpu().numpy().astype(np.float32)
            figures[f'attention_{bridge}_{number:02d}'] = draw_attention(
                bridge, image[..., ::-1], panels, tokens)
    report = Report(
        'attention', 'Attention between pixels and tokens', CAPTION,
        tables=[table],
        numbers=dict(similarity=[dict(zip(
            ('image', 'model', 'bridge', 'block', 'head', 'value'), row))
            for row in table.rows]),
        source=dict(config=args.config, checkpoint=args.checkpoint,
                    models=sources, images=files))
    write(args.out, report, figures, arrays)
    print_tables(report)


if __name__ == '__main__':
    report_user_errors(main)
