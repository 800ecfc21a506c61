# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Convert the published weights of Mobile-Former V1 to this project's names.

The variant is found from the shapes. The result is a checkpoint for
configs/mobile_former/mf-*_8xb128-coslr-450e_in1k.py, and its encoder one for
every configuration with init_cfg=dict(type='PretrainedEncoder').
"""
import argparse
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmpretrain.registry import MODELS
from torch import Tensor

from qbheat_mm.cli import report_user_errors, require_file
from qbheat_mm.cli.command_line import target
from qbheat_mm.engine.checkpoint import mismatch, non_finite, read
from qbheat_mm.errors import UserError
from qbheat_mm.utils.atomic_write import atomic_write

CONFIGS = Path(__file__).resolve().parents[2] / 'configs/mobile_former'
VARIANTS = ('26m', '52m', '96m', '151m', '214m', '294m', '508m')

# Our modules and the published ones. Where we compute two linear layers as
# one, two published layers stand one after the other.
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
# The published convolutions that a DY-ReLU follows.
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


def prefixed(names: dict, ours: str, published: str) -> dict:
    """Put prefixes before our names and the published ones."""
    return {
        ours + name: tuple(published + source for source in sources)
        for name, sources in names.items()
    }


def block_names(kind: str) -> dict:
    """Modules of one block; kind as in the rows of ``arch['stages']``."""
    if kind.startswith('lite'):
        return LITE
    first, second = DYNAMIC[kind]
    names = {
        'slopes.squeeze': (f'hyper{first}.hyper.0', f'hyper{second}.hyper.0'),
        'slopes.expand.0': (f'hyper{first}.hyper.2', ),
        'slopes.expand.1': (f'hyper{second}.hyper.2', ),
        'former_to_mobile.key_value': ('global_local.k', 'global_local.proj'),
    }
    names.update(prefixed(BRIDGE, 'mobile_to_former.', 'local_global.'))
    names.update(prefixed(FORMER, 'former.', 'global_block.'))
    for i, ours in enumerate(MOBILE[kind], start=1):
        for part in '01':  # convolution, BN
            names[f'mobile.{ours}.{part}'] = (f'conv{i}.{part}', )
    return names


def tensor_names(model: torch.nn.Module) -> dict[str, tuple[str, ...]]:
    """Our tensors and the published ones of which each is made."""
    modules = dict(AROUND)
    modules.update(
        prefixed(BRIDGE, 'backbone.final_bridge.', 'local_global.'))
    number = 0
    for i, rows in enumerate(model.backbone.arch['stages']):
        for j, (kind, _, _) in enumerate(rows):
            modules.update(
                prefixed(block_names(kind), f'backbone.stages.{i}.{j}.',
                         f'features.{number}.'))
            number += 1
    names = {'backbone.tokens': ('tokens.weight', )}
    for ours in model.state_dict():
        if ours not in names:
            module, leaf = ours.rsplit('.', 1)
            names[ours] = tuple(f'{s}.{leaf}' for s in modules[module])
    return names


def published_tensors(model: torch.nn.Module) -> dict[str, Tensor]:
    """Empty tensors with the names and shapes of the published weights."""
    state, tensors = model.state_dict(), {}
    for ours, sources in tensor_names(model).items():
        # A counter has no dimension to divide.
        parts = state[ours].chunk(len(sources)) if len(sources) > 1 else [
            state[ours]
        ]
        tensors.update(zip(sources, parts))
    return tensors


def read_published(path: str) -> dict[str, Tensor]:
    """Read a checkpoint, bare or under ``state_dict``, without ``module.``.

    Raises:
        UserError: If the file is damaged, could run code, or holds no named
            tensors.
    """
    require_file(path, 'SRC')
    # timm keeps its arguments beside the weights; they are plain data.
    allow = getattr(torch.serialization, 'safe_globals', nullcontext)
    with allow([argparse.Namespace]):
        checkpoint = read(path)
    if isinstance(checkpoint, Mapping):
        checkpoint = checkpoint.get('state_dict', checkpoint)
    tensors = {
        name.removeprefix('module.'): tensor
        for name, tensor in checkpoint.items() if isinstance(tensor, Tensor)
    } if isinstance(checkpoint, Mapping) else {}
    if not tensors:
        raise UserError(f"checkpoint '{path}' holds no named tensors, neither "
                        "at its top nor under 'state_dict'")
    if non_finite(tensors):
        raise UserError(f"checkpoint '{path}' holds NaN or infinite values")
    return tensors


def find_variant(
        path: str,
        tensors: dict[str, Tensor]) -> tuple[str, Config, torch.nn.Module]:
    """Find the variant whose tensors are exactly those of the checkpoint.

    Returns:
        tuple: Its name, its configuration and its model.

    Raises:
        UserError: If there is none, with the tensors that keep the nearest
            variant from fitting.
    """
    problems = {}
    for name in VARIANTS:
        cfg = Config.fromfile(CONFIGS / f'mf-{name}_8xb128-coslr-450e_in1k.py')
        cfg.model.pop('train_cfg')  # no augmentation: nothing is trained
        with torch.device('meta'):
            model = MODELS.build(cfg.model)
        expected = published_tensors(model)
        problem = mismatch(expected, tensors)
        if not problem:
            return name, cfg, model
        problems[name] = len(set(expected) ^ set(tensors)), problem
    name = min(problems, key=lambda name: problems[name][0])
    raise UserError(
        f"checkpoint '{path}' is none of the published variants of "
        f'Mobile-Former V1 ({", ".join(VARIANTS)}); the nearest is {name}: '
        f'{problems[name][1]}')


def convert(model: torch.nn.Module,
            tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename the published tensors of ``model``'s variant and join them."""
    state = {}
    for ours, sources in tensor_names(model).items():
        parts = [tensors[s] for s in sources if s in tensors]
        if parts:  # else a counter of BN, absent from old checkpoints
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
    tensors = read_published(args.src)
    name, cfg, model = find_variant(args.src, tensors)
    state = convert(model, tensors)
    # Errors name the network by it, and its normalization is compared.
    text = Config(dict(model=cfg.model)).pretty_text
    with atomic_write(args.dst) as part:
        torch.save(dict(state_dict=state, meta=dict(cfg=text)), part)
    print(f'mf-{name}: {len(tensors)} tensors of {args.src} became '
          f'{len(state)} of {args.dst}, for {Path(cfg.filename).name}')


if __name__ == '__main__':
    report_user_errors(main)
