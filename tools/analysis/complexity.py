# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Parameters and multiply-adds of the configs, next to published numbers.

Prints docs/model_sizes.md in seconds on any machine, since models are built on
the meta device. Without mmdet, detection heads are skipped. --configs prints
docs/configs.md, which lists all configs, and needs mmdet.
"""
import argparse
import csv
import importlib.util
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from mmengine.config import Config
from model_size import build_without_memory, count

from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.report import markdown_table

CONFIGS = Path(__file__).resolve().parents[2] / 'configs'
#: As published: encoders and detectors in the captions and columns of the
#: tables of results, V1 with its weights.
PUBLISHED = Path(__file__).with_name('published_sizes.csv')

HEADER = ['model', 'image', 'params (M)', 'published', 'difference',
          'MAdds (G)', 'published', 'difference', 'config']
RIGHT = range(2, 8)  # columns of numbers
#: Headings of the folders on the page of all configs.
FOLDERS = {
    'qbheat': 'Pre-training with QB-Heat',
    'qbheat/ablation': 'Ablations of the pre-training',
    'mocov2': 'Pre-training with MoCo-v2',
    'mobile_former': 'Supervised training',
    'qbheat/benchmarks': 'Classification on a pre-trained encoder',
    'qbheat/coco': 'Detection and segmentation'}


def measure(cfg: Config, parts: Iterable[str],
            size: tuple[int, int]) -> tuple[float, float | None]:
    """Count millions of parameters and billions of multiply-adds of parts."""
    model, params, madds = build_without_memory(cfg), 0, 0
    for part in parts:
        part_params, part_madds = count(part, model, size)
        params += part_params
        madds = None if None in (madds, part_madds) else madds + part_madds
    return params / 1e6, None if madds is None else madds / 1e9


def published() -> list[dict]:
    """Read the published sizes; detection heads need mmdet."""
    with open(PUBLISHED, encoding='utf-8', newline='') as file:
        return [row for row in csv.DictReader(file)
                if row['part'] != 'Detection heads'
                or importlib.util.find_spec('mmdet')]


def measure_published(row: dict) -> tuple[float, float]:
    """Measure what a row of :func:`published` is about."""
    return measure(Config.fromfile(CONFIGS / row['config']), [row['part']],
                   (int(row['height']), int(row['width'])))


def cells(row: dict, params: float, madds: float) -> list[str]:
    """Format a row of :func:`published` next to what was counted."""
    return [
        row['name'], f'{row["height"]}x{row["width"]}', f'{params:.2f}',
        *compare(params, row['params_m']), f'{madds:.3f}',
        *compare(madds, row['madds_g']), row['config']]


def compare(ours: float, printed: str) -> list[str]:
    """Format a published number and our relative difference from it."""
    return [printed, f'{100 * (ours / float(printed) - 1):+.1f}%']


def published_tables() -> list[str]:
    """Format a table for each part."""
    parts = defaultdict(list)
    for row in published():
        parts[row['part']].append(cells(row, *measure_published(row)))
    return [f'## {part}\n\n{markdown_table([HEADER, *rows], RIGHT)}'
            for part, rows in parts.items()]


def shipped() -> list[str]:
    """List all configs but the bases, 100 epochs before 1600."""
    def numbers_as_numbers(name: str) -> list:
        return [(int(part), '') if part.isdigit() else (0, part)
                for part in re.split(r'(\d+)', name)]

    names = []
    for path in CONFIGS.rglob('*.py'):
        name = path.relative_to(CONFIGS).as_posix()
        if not name.startswith('_base_/'):
            names.append(name)
    return sorted(names, key=numbers_as_numbers)


class ConfigSize(NamedTuple):
    """The size of a config's model and its image, HEIGHTxWIDTH."""
    image: str
    params: float  # millions
    madds: float | None  # billions; None if unknown


def measure_config(cfg: Config) -> ConfigSize:
    """Measure the model of a config."""
    size, parts = (224, 224), ['Encoders']
    if cfg.default_scope == 'mmdet':
        # Panoptic FPN needs multiples of 32 pixels.
        size = (800, 1344 if 'semantic_head' in cfg.model else 1333)
        parts.append('Detection heads')
    elif cfg.model.type == 'ImageClassifier':
        parts = ['Classifiers']
    return ConfigSize('{}x{}'.format(*size), *measure(cfg, parts, size))


def config_tables(cfgs: dict[str, Config],
                  sizes: dict[str, ConfigSize]) -> list[str]:
    """Format a table for each folder; epochs share a row.

    Args:
        cfgs (dict[str, Config]): All configs by name.
        sizes (dict[str, ConfigSize]): Their models' sizes.
    """
    tables = {folder: defaultdict(dict) for folder in FOLDERS}
    for name, cfg in cfgs.items():
        folder, _, file = name.rpartition('/')
        stem, size = file.removesuffix('.py'), sizes[name]
        madds = '-' if size.madds is None else f'{size.madds:.3f}'
        links = tables[folder][
            re.sub(r'-\d+e_', '-*e_', stem),
            f'{size.image} | {size.params:.2f} | {madds}']
        length = cfg.train_cfg.get('max_epochs') or (
            f'{cfg.train_cfg.max_iters} steps')
        links[stem] = f'[{length}](../configs/{name})'
    return [f'## {FOLDERS[folder]}\n\n{format_configs(rows)}'
            for folder, rows in tables.items()]


def format_configs(rows: dict[tuple[str, str], dict[str, str]]) -> str:
    """Format pattern and sizes to links by name."""
    lines = ['| config | epochs | image | params (M) | MAdds (G) |',
             '|---|---:|---:|---:|---:|']
    for (pattern, sizes), links in rows.items():
        name = pattern if len(links) > 1 else next(iter(links))
        lines.append(f'| `{name}` | {", ".join(links.values())} | {sizes} |')
    return '\n'.join(lines)


def page(template: str, tables: list[str]) -> str:
    """Insert tables into a page."""
    text = Path(__file__).with_name(template).read_text(encoding='utf-8')
    return text.replace('TABLES', '\n\n'.join(tables))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--configs', action='store_true',
                        help='print docs/configs.md instead')
    args = parser.parse_args(argv)
    if args.configs or importlib.util.find_spec('mmdet'):
        # Registers the detectors; needs mmdet, which not every user has.
        import qbheat_mm.detection  # noqa: F401
    if not args.configs:
        print(page('model_sizes.md', published_tables()), end='')
        return
    cfgs = {name: Config.fromfile(CONFIGS / name) for name in shipped()}
    sizes, known = {}, {}
    for name, cfg in cfgs.items():
        key = str(cfg.model.to_dict() | dict(train_cfg=None))
        if key not in known:  # schedules share a model
            known[key] = measure_config(cfg)
        sizes[name] = known[key]
    print(page('all_configs.md', config_tables(cfgs, sizes)), end='')


if __name__ == '__main__':
    report_user_errors(main)
