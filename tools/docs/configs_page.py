# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Write docs/configs.md: every config and its size.

Descriptions come from the configs' values, sizes from their models (on the
meta device). Needs mmdet.
"""
import re
from pathlib import Path

from mmengine.config import Config

from qbheat_mm.analysis.model_size import build_without_memory, count
from qbheat_mm.cli import report_user_errors

ROOT = Path(__file__).resolve().parents[2]
CONFIGS = ROOT / 'configs'
DEMO = ROOT / 'projects/drawn_world/configs'
PAGE = ROOT / 'docs/configs.md'

HEAD = """\
# All configurations

Made by `python tools/docs/configs_page.py`.

Parameters and multiply-adds are of what one uses in the end: of the encoder
after pre-training, of the whole network otherwise, for one image of the size
beside them. [model_sizes.md](model_sizes.md) says what counts, and has the
published figures, [paper_tables.md](paper_tables.md) names the row of the
paper's tables that a configuration stands for.
"""
#: Headings of the folders, in the order of the page.
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
           'MAdds (G)')


def shipped() -> list[str]:
    """Every config but the bases, relative to ``configs``.

    The demo's, which lie in its project, are called ``demo/...``.
    """
    names = [path.relative_to(CONFIGS).as_posix()
             for path in CONFIGS.rglob('*.py')]
    names += [f'demo/{path.name}' for path in DEMO.glob('*.py')]
    return sorted((name for name in names if not name.startswith('_base_/')),
                  key=lambda name: [  # 100 epochs before 1600
                      (int(part), '') if part.isdigit() else (0, part)
                      for part in re.split(r'(\d+)', name)])


def find(name: str) -> Path:
    """The file of a config that :func:`shipped` lists."""
    folder, _, file = name.partition('/')
    return DEMO / file if folder == 'demo' else CONFIGS / name


def describe(cfg: Config) -> str:
    """What a config trains and on what, in a few words."""
    backbone, model, kind = cfg.model.backbone, cfg.model, cfg.model.type
    arch = backbone.get('arch')
    if backbone.type == 'MobileFormer':
        encoder = arch.replace('mf-', 'MF-').upper() if isinstance(
            arch, str) else 'the small MF'
    else:
        encoder = f'{backbone.type}-{arch or backbone.depth}'
    if kind in ('QBHeat', 'MoCo'):
        parts = [encoder]
        if kind == 'QBHeat' and model.position != 'mixed':
            parts.append(f'{model.position} alone')
        if kind == 'QBHeat' and model.num_models != 8:
            parts.append(f'{model.num_models} models')
        if cfg.optim_wrapper.optimizer.lr == 0:
            parts.append('random weights, learning nothing')
        return ', '.join(parts)
    if kind == 'ImageClassifier':
        neck = model.neck[0] if isinstance(model.neck, list) else model.neck
        decoder = {'TransformerProbe': f'`tran-{neck.get("depth")}`',
                   'PoolWithToken': '`lin`'}
        what = (f'{encoder} with '
                f'{decoder.get(neck.type, "its classifier")}')
    elif kind == 'MobileFormerDETR':
        what = f'MF-Dec-{"".join(map(str, model.depths))} on {encoder}'
    else:
        what = f'{kind} on {encoder}'
    return f'{what}, {_trained(cfg)}'


def _trained(cfg: Config) -> str:
    """Which part is trained, and from what."""
    backbone = cfg.model.backbone
    origin = next((hook.origin for hook in cfg.get('custom_hooks', [])
                   if hook.get('origin')), None)
    if (backbone.get('frozen_stages') or -1) > 0:
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
        kinds = ('Encoders', 'Detection heads')
    elif cfg.model.type == 'ImageClassifier':
        kinds = ('Classifiers', )
    else:
        kinds = ('Encoders', )
    params, madds = zip(*(count(kind, model, size) for kind in kinds))
    return (f'{size[0]}x{size[1]}', sum(params) / 1e6,
            None if None in madds else sum(madds) / 1e9)


def _image(name: str, cfg: Config) -> tuple[int, int]:
    if name.startswith('demo/'):
        return 128, 128
    if cfg.default_scope != 'mmdet':
        return 224, 224
    # Panoptic FPN needs multiples of 32 pixels.
    return (800, 1344) if 'semantic_head' in cfg.model else (800, 1333)


def page(cfgs: dict[str, Config], sizes: dict[str, tuple]) -> str:
    """The whole page.

    Args:
        cfgs (dict[str, Config]): All configs by name.
        sizes (dict[str, tuple]): Their results of :func:`measure`.
    """
    tables = {folder: [] for folder in FOLDERS}
    for name, cfg in cfgs.items():
        image, params, madds = sizes[name]
        cells = (f'[{Path(name).stem}](../{find(name).relative_to(ROOT)})',
                 describe(cfg),
                 str(cfg.train_cfg.max_epochs), image, f'{params:.2f}',
                 '-' if madds is None else f'{madds:.3f}')
        tables[name.rpartition('/')[0]].append(f'| {" | ".join(cells)} |')
    lines = [HEAD]
    for folder, heading in FOLDERS.items():
        lines += [f'## {heading}', '', f'| {" | ".join(COLUMNS)} |',
                  '|---|---|---:|---:|---:|---:|', *tables[folder], '']
    return '\n'.join(lines).rstrip() + '\n'


def main() -> None:
    """Measure all and write the page."""
    import qbheat_mm.detection  # noqa: F401  (registers its parts)
    cfgs = {name: Config.fromfile(find(name)) for name in shipped()}
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
