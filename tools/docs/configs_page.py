# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write docs/configs.md: every configuration, what it is, its size, its row.

What a configuration is comes from its values, sizes from its model (built on
the meta device, nothing is computed), the row from docs/paper_tables.md.
Needs mmdet and mmcv's compiled operators.
"""
import re
from collections.abc import Iterator
from pathlib import Path

from mmengine.config import Config

from qbheat_mm.cli import report_user_errors
from qbheat_mm.cli.model_size import build_without_memory, count

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / 'configs'
TABLES = ROOT / 'docs/paper_tables.md'
PAGE = ROOT / 'docs/configs.md'

HEAD = """\
# All configurations

Made by `python tools/docs/configs_page.py`.

Parameters and multiply-adds are of what one uses in the end: of the encoder
after pre-training, of the whole network otherwise, for one image of the size
beside them. [model_sizes.md](model_sizes.md) says what counts, and has the
published figures. The last column names the row of
[the paper's tables](paper_tables.md) that a configuration stands for.
"""
#: Folders in the order of the page, with their headings.
FOLDERS = {
    'qbheat': 'Pre-training with QB-Heat',
    'qbheat/ablation': 'Ablations of the pre-training',
    'mocov2': 'Pre-training with MoCo-v2',
    'mobile_former': 'Supervised training',
    'qbheat/benchmarks': 'Classification on a pre-trained encoder',
    'qbheat/coco': 'Detection and segmentation',
    'demo': 'The demo',
}
COLUMNS = ('configuration', 'what', 'epochs', 'image', 'params (M)',
           'MAdds (G)', 'paper')


def shipped() -> list[str]:
    """Every configuration but the bases, relative to ``configs``."""
    names = (path.relative_to(CONFIGS).as_posix()
             for path in CONFIGS.rglob('*.py'))
    return sorted((name for name in names if not name.startswith('_base_/')),
                  key=_natural)


def _natural(name: str) -> list:
    """For 100 epochs to stand before 1,600."""
    return [(int(part), '') if part.isdigit() else (0, part)
            for part in re.split(r'(\d+)', name)]


def describe(cfg: Config) -> str:
    """What a configuration trains, on what, in a few words."""
    encoder = _encoder(cfg.model.backbone)
    kind = cfg.model.type
    if kind in ('QBHeat', 'MoCo'):
        return ', '.join([encoder, *_pretraining(cfg)])
    if kind == 'ImageClassifier':
        what = _decoder(cfg.model)
    elif kind == 'MobileFormerDETR':
        what = f'MF-Dec-{"".join(map(str, cfg.model.depths))} on {encoder}'
    else:
        what = f'{kind} on {encoder}'
    if encoder not in what:
        what = f'{encoder} with {what}'
    return f'{what}, {_trained(cfg)}'


def _encoder(backbone: Config) -> str:
    arch = backbone.get('arch')
    if backbone.type == 'MobileFormer':
        return arch.replace('mf-', 'MF-').upper() if isinstance(
            arch, str) else 'the small MF'
    return f'{backbone.type}-{arch or backbone.depth}'


def _pretraining(cfg: Config) -> Iterator[str]:
    """What differs from the recipe."""
    model = cfg.model
    if model.type == 'QBHeat':
        if model.position != 'mixed':
            yield f'{model.position} alone'
        if model.num_models != 8:
            yield f'{model.num_models} models'
    if cfg.optim_wrapper.optimizer.lr == 0:
        yield 'random weights, learning nothing'


def _decoder(model: Config) -> str:
    neck = model.neck if isinstance(model.neck, list) else [model.neck]
    if neck[0].type == 'TransformerProbe':
        return f'`tran-{neck[0].depth}`'
    return '`lin`' if neck[0].type == 'PoolWithToken' else 'its classifier'


def _trained(cfg: Config) -> str:
    """Which part is trained, and from what."""
    backbone = cfg.model.backbone
    frozen = backbone.get('frozen_stages', -1)
    origin = next((hook.origin for hook in cfg.get('custom_hooks', [])
                   if hook.type == 'RequireCheckpointHook'), None)
    if frozen is not None and frozen > 0:
        return 'the encoder frozen'
    if origin:
        return f'all trained, from `{origin}`'
    if backbone.get('init_cfg'):
        return 'all trained, from a pre-trained encoder'
    return 'from scratch'


def measure(name: str, cfg: Config) -> tuple[str, float, float | None]:
    """The image's size, millions of parameters, billions of multiply-adds."""
    size = _image(name, cfg)
    model = build_without_memory(cfg)
    if cfg.default_scope == 'mmdet':
        parts = [count(part, model, size)
                 for part in ('Encoders', 'Detection heads')]
    else:
        part = ('Classifiers' if cfg.model.type == 'ImageClassifier'
                else 'Encoders')
        parts = [count(part, model, size)]
    madds = [madd for _, madd in parts]
    return (f'{size[0]}x{size[1]}', sum(params for params, _ in parts) / 1e6,
            None if None in madds else sum(madds) / 1e9)


def _image(name: str, cfg: Config) -> tuple[int, int]:
    if name.startswith('demo/'):
        return 128, 128
    if cfg.default_scope != 'mmdet':
        return 224, 224
    # Panoptic FPN needs multiples of 32 pixels.
    return (800, 1344) if 'semantic_head' in cfg.model else (800, 1333)


def paper_rows(text: str, names: list[str]) -> dict[str, list[str]]:
    """Where the page of the paper's tables names each configuration.

    Args:
        text (str): ``docs/paper_tables.md``.
        names (list[str]): All configurations.

    Returns:
        dict[str, list[str]]: Links to its sections, with the row's name
        where the table gives it one.
    """
    found = {name: [] for name in names}
    for part in re.split(r'^## ', text, flags=re.M)[1:]:
        heading, _, body = part.partition('\n')
        table = re.match(r'Tables? [\d ]+(?:to \d+)?', heading)
        if not table:
            continue
        for line in body.splitlines():
            for name in _named(line, names):
                link = _link(table[0].strip(), heading, line)
                if link not in found[name]:
                    found[name].append(link)
    return found


def _named(line: str, names: list[str]) -> list[str]:
    """The configurations that a line names."""
    return [name for name in names if f'`{name}`' in line]


def _link(table: str, heading: str, line: str) -> str:
    """A link to a section, with the row's first cell if that is a name."""
    slug = re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')
    cell = line.split('|')[1].strip() if line.startswith('|') else ''
    row = '' if not cell or '`' in cell else f', {cell}'
    if row and heading.startswith('Table 3'):
        row += ' epochs'
    return f'[{table}](paper_tables.md#{slug}){row}'


def table(names: list[str], cfgs: dict, sizes: dict, rows: dict
          ) -> Iterator[str]:
    """The lines of a folder's table."""
    yield '| ' + ' | '.join(COLUMNS) + ' |'
    yield '|---|---|---:|---:|---:|---:|---|'
    for name in names:
        cfg = cfgs[name]
        image, params, madds = sizes[name]
        yield '| ' + ' | '.join([
            f'[{Path(name).stem}](../configs/{name})', describe(cfg),
            str(cfg.train_cfg.max_epochs), image, f'{params:.2f}',
            '-' if madds is None else f'{madds:.3f}',
            '; '.join(rows[name]) or '-']) + ' |'


def page(cfgs: dict[str, Config], sizes: dict[str, tuple]) -> str:
    """The whole page.

    Args:
        cfgs (dict[str, Config]): All configurations by name.
        sizes (dict[str, tuple]): What :func:`measure` says of each.

    Raises:
        KeyError: A folder of configurations has no heading here.
    """
    rows = paper_rows(TABLES.read_text(encoding='utf-8'), list(cfgs))
    folders = {name.rpartition('/')[0] for name in cfgs}
    if folders - set(FOLDERS):
        raise KeyError(f'{folders - set(FOLDERS)}: give them a heading in '
                       'tools/docs/configs_page.py')
    lines = [HEAD]
    for folder, heading in FOLDERS.items():
        names = [name for name in cfgs if name.rpartition('/')[0] == folder]
        lines += [f'## {heading}', '', *table(names, cfgs, sizes, rows), '']
    return '\n'.join(lines).rstrip() + '\n'


def main() -> None:
    import qbheat_mm.detection  # noqa: F401  (registers its parts)
    cfgs = {name: Config.fromfile(CONFIGS / name) for name in shipped()}
    known, sizes = {}, {}
    for name, cfg in cfgs.items():
        model = cfg.model.to_dict() | dict(train_cfg=None)
        key = str((model, _image(name, cfg)))  # schedules share a model
        if key not in known:
            known[key] = measure(name, cfg)
        sizes[name] = known[key]
    PAGE.write_text(page(cfgs, sizes), encoding='utf-8')
    print(PAGE)


if __name__ == '__main__':
    report_user_errors(main)
