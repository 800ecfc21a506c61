# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Convert the published weights of Mobile-Former V1 to our names.

The variant follows from the shapes. The result is a checkpoint for
configs/mobile_former/mf-*_8xb128-coslr-450e_in1k.py, and for every config
with init_cfg=dict(type='PretrainedEncoder').
"""
import argparse
from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmpretrain.registry import MODELS
from torch import Tensor, nn

from qbheat_mm.cli.arguments import target
from qbheat_mm.cli.reporting import report_user_errors
from qbheat_mm.errors import UserError
from qbheat_mm.trained.checkpoint import Checkpoint
from qbheat_mm.trained.fit import mismatch
from qbheat_mm.utils.atomic_write import atomic_write

CONFIGS = Path(__file__).resolve().parents[2] / 'configs/mobile_former'
VARIANTS = ('26m', '52m', '96m', '151m', '214m', '294m', '508m')

# Our modules and the published ones; two where we merge two linear layers.
BRIDGE = {
    'query_gate': ('q', 'alpha.0'),
    'proj': ('proj', ),
    'norm': ('layer_norm', ),
}
FORMER = {
    'query': ('q', ),
    'proj': ('channel_mlp', ),
    'norm1': ('layer_norm', ),
    'mlp.0': ('ffn.0', ),
    'mlp.2': ('ffn.2', ),
    'norm2': ('ffn_norm', ),
}
# Our convolutions, in the order of the published conv1, conv2, ...
MOBILE = {
    'mf': ('expand', 'depthwise', 'project'),
    'mf-down': ('depthwise1', 'project1', 'depthwise2', 'project2'),
}
# Numbers of the published convolutions before a DY-ReLU.
DYNAMIC = {'mf': (1, 2), 'mf-down': (1, 3)}
LITE = {
    'depthwise.0': ('conv.0', ),
    'depthwise.1': ('conv.1', ),
    'pointwise.0': ('conv.4', ),
    'pointwise.1': ('conv.5', ),
}
AROUND = {
    'backbone.stem.0': ('stem.0', ),
    'backbone.stem.1': ('stem.1', ),
    'backbone.conv.1': ('classifier.conv.1', ),
    'backbone.conv.2': ('classifier.conv.2', ),
    'neck.fc': ('classifier.fc.0', ),
    'neck.norm': ('classifier.fc.1', ),
    'head.fc': ('classifier.classifier.1', ),
}


def published_names(model: nn.Module) -> dict[str, tuple[str, ...]]:
    """Map our tensors to the published ones that each is made of."""
    modules, number = dict(AROUND), 0
    add(modules, BRIDGE, 'backbone.final_bridge.', 'local_global.')
    for i, stage in enumerate(model.backbone.arch['stages']):
        for j, (kind, *_) in enumerate(stage):
            add_block(modules, kind, f'backbone.stages.{i}.{j}.',
                      f'features.{number}.')
            number += 1
    names = {'backbone.tokens': ('tokens.weight', )}
    for ours in model.state_dict():
        if ours not in names:
            module, leaf = ours.rsplit('.', 1)
            names[ours] = tuple(f'{part}.{leaf}' for part in modules[module])
    return names


def add(modules: dict, names: dict, ours: str, published: str) -> None:
    """Add names of modules, each with its prefix."""
    for name, parts in names.items():
        modules[ours + name] = tuple(published + part for part in parts)


def add_block(modules: dict, kind: str, ours: str, published: str) -> None:
    """Add the modules of a block."""
    if kind.startswith('lite'):
        add(modules, LITE, ours, published)
        return
    add(modules, BRIDGE, f'{ours}mobile_to_former.',
        f'{published}local_global.')
    add(modules, FORMER, f'{ours}former.', f'{published}global_block.')
    first, second = DYNAMIC[kind]
    slopes = {
        'squeeze': (f'hyper{first}.hyper.0', f'hyper{second}.hyper.0'),
        'expand.0': (f'hyper{first}.hyper.2', ),
        'expand.1': (f'hyper{second}.hyper.2', )}
    add(modules, slopes, f'{ours}slopes.', published)
    add(modules, {'key_value': ('k', 'proj')}, f'{ours}former_to_mobile.',
        f'{published}global_local.')
    for n, name in enumerate(MOBILE[kind], start=1):
        add(modules, {'0': ('0', ), '1': ('1', )}, f'{ours}mobile.{name}.',
            f'{published}conv{n}.')


def published_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Tensors with the names and shapes of the published weights."""
    state, tensors = model.state_dict(), {}
    for ours, sources in published_names(model).items():
        parts = [state[ours]]  # BN counters have no dimensions
        if len(sources) > 1:
            parts = state[ours].chunk(len(sources))
        tensors.update(zip(sources, parts))
    return tensors


def find_variant(path: str, tensors: dict[str, Tensor]
                 ) -> tuple[str, Config, nn.Module]:
    """Find the variant that has exactly the tensors of a checkpoint.

    Raises:
        UserError: If there is none, with the difference from the nearest.
    """
    problems = []
    for name in VARIANTS:
        cfg = Config.fromfile(CONFIGS / f'mf-{name}_8xb128-coslr-450e_in1k.py')
        cfg.model.pop('train_cfg')  # augmentation
        with torch.device('meta'):
            model = MODELS.build(cfg.model)
        expected = published_tensors(model)
        problem = mismatch(expected, tensors)
        if not problem:
            return name, cfg, model
        problems.append((len({*expected} ^ {*tensors}), name, problem))
    _, name, problem = min(problems)
    raise UserError(f"checkpoint '{path}' is not a published variant of "
                    f'Mobile-Former V1; the nearest is {name}: {problem}')


def convert(model: nn.Module, tensors: dict[str, Tensor]
            ) -> dict[str, Tensor]:
    """Rename the published tensors of a variant and join them."""
    state = {}
    for ours, sources in published_names(model).items():
        parts = [tensors[name] for name in sources if name in tensors]
        if parts:  # old checkpoints lack BN counters
            state[ours] = torch.cat(parts) if len(parts) > 1 else parts[0]
    return state


def main() -> None:
    """Convert."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('src', metavar='SRC', help='published checkpoint')
    parser.add_argument('dst', metavar='DST', type=target,
                        help='checkpoint to write, as FOLDER/mf-26m.pth')
    args = parser.parse_args()
    if Path(args.dst).resolve() == Path(args.src).resolve():
        raise UserError(f"'{args.dst}' is both SRC and DST")
    init_default_scope('mmpretrain')
    # timm stores its arguments next to the weights, which is harmless.
    with torch.serialization.safe_globals([argparse.Namespace]):
        tensors = Checkpoint.read(args.src).weights
    name, cfg, model = find_variant(args.src, tensors)
    state = convert(model, tensors)
    # Later loads read the network and its input normalization from it.
    text = Config(dict(model=cfg.model)).pretty_text
    with atomic_write(args.dst) as part:
        torch.save(dict(state_dict=state, meta=dict(cfg=text)), part)
    print(f'mf-{name}: {len(tensors)} tensors of {args.src} became '
          f'{len(state)} of {args.dst}, for {Path(cfg.filename).name}')


if __name__ == '__main__':
    report_user_errors(main)
