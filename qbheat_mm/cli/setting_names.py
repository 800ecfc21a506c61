# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Settings that nothing reads: mmengine passes most of them in silence.

A dict with a ``type`` is compared with the arguments of its class, found in
the registries as mmengine finds it. Dicts without one are read by functions
of mmengine, which are asked in the same way, or by the classes around them.
Where a class hands its ``**kwargs`` to something unknown, and in dicts of
which nobody can say who reads them, every name passes.
"""
import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from mmengine.config import Config
from mmengine.dist import init_dist
from mmengine.hooks import CheckpointHook
from mmengine.registry import Registry
from mmengine.runner import EpochBasedTrainLoop, IterBasedTrainLoop, Runner
from mmengine.utils.dl_utils import set_multi_processing

from .signatures import accepted, texts, words
from .toolbox import toolbox

#: Registries of the sections of a configuration; a nested dict is looked up
#: in those of its section unless its own name is in the second table.
_SECTIONS = dict(
    model=('MODELS', 'TASK_UTILS', 'BATCH_AUGMENTS'),
    data_preprocessor=('MODELS', ),
    train_dataloader=('DATASETS', ),
    val_dataloader=('DATASETS', ),
    test_dataloader=('DATASETS', ),
    train_cfg=('LOOPS', ),
    val_cfg=('LOOPS', ),
    test_cfg=('LOOPS', ),
    optim_wrapper=('OPTIM_WRAPPERS', ),
    param_scheduler=('PARAM_SCHEDULERS', ),
    default_hooks=('HOOKS', ),
    custom_hooks=('HOOKS', ),
    val_evaluator=('METRICS', 'EVALUATOR'),
    test_evaluator=('METRICS', 'EVALUATOR'),
    visualizer=('VISUALIZERS', ),
    vis_backends=('VISBACKENDS', ),
    log_processor=('LOG_PROCESSORS', ),
    env_cfg=(),
    randomness=(),
    auto_scale_lr=())
_NESTED = dict(
    batch_sampler=('DATA_SAMPLERS', ),
    collate_fn=('FUNCTIONS', ),
    init_cfg=('WEIGHT_INITIALIZERS', ),
    optimizer=('OPTIMIZERS', ),
    pipeline=('TRANSFORMS', ),
    transforms=('TRANSFORMS', ),
    vis_backends=('VISBACKENDS', ),
    worker_init_fn=('FUNCTIONS', ))
#: What sections without a `type` are built as.
_DEFAULT_TYPES = dict(
    val_cfg='ValLoop', test_cfg='TestLoop', optim_wrapper='OptimWrapper',
    log_processor='LogProcessor')
#: Of classifiers, and of the pre-training.
_PREPROCESSORS = ('ClsDataPreprocessor', 'SelfSupDataPreprocessor')
#: Names that are read before the class sees the rest.
_BESIDE = dict(
    HOOKS={'priority'},
    PARAM_SCHEDULERS={'convert_to_iter_based', 'epoch_length'},
    OPTIM_WRAPPERS={'constructor', 'optimizer', 'paramwise_cfg'},
    WEIGHT_INITIALIZERS={'layer', 'override', 'name'})
#: Dicts without a type, of which the classes around them read each name.
_READ_BY_CLASSES = ('data_prefix', 'filter_cfg')
_READ_BY_MODEL = ('train_cfg', 'test_cfg')
#: Of detectors of two stages, whose heads read a part of it each.
_OF_STAGES = ('model.train_cfg', 'model.test_cfg')


@dataclass(frozen=True)
class Unread:
    """A name that nothing reads, or a type that nothing is.

    Attributes:
        setting (str): As ``'model.neck.depht'``.
        name (str): What is wrong, as ``'depht'``.
        problem (str): As ``'QBHeatDecoder has no argument depht'``.
        known (Iterable[str]): The names that there are.
        sure (bool): False where a function far from the classes around the
            setting could read it, or a configuration carries along what is
            read no more.
    """
    setting: str
    name: str
    problem: str
    known: Iterable[str]
    sure: bool = True

    def __str__(self) -> str:
        near = difflib.get_close_matches(
            str(self.name), map(str, self.known), n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ''
        return f'{self.setting}: {self.problem}{hint}'


def find_unread(cfg: Config) -> list[Unread]:
    """Names in the sections of a configuration that nothing reads."""
    return _Search(cfg).findings()


@dataclass
class _Search:
    """One walk through a configuration."""
    cfg: Config
    classes: set = field(default_factory=set)
    # Dicts that classes of the model read, looked at when all are known.
    later: list = field(default_factory=list)

    def findings(self) -> list[Unread]:
        found = []
        for section, registries in _SECTIONS.items():
            found += self._visit(section, self.cfg.get(section), registries)
        if self._scope == 'mmpretrain':  # built in any case, and reads
            self.classes |= {self._resolve(kind, ('MODELS', ), None)
                             for kind in _PREPROCESSORS} - {None}
        names = frozenset().union(*map(words, self.classes))
        for path, settings in self.later:
            found += self._compare(path, settings, names,
                                   'no part of the model reads', sure=False)
        return found

    def _visit(self, path: str, value, registries: tuple[str, ...],
               owner: Callable | None = None) -> Iterator[Unread]:
        """Look at a value and at what is in it."""
        if isinstance(value, list | tuple):
            for i, part in enumerate(value):
                yield from self._visit(f'{path}.{i}', part, registries, owner)
        if not isinstance(value, Mapping):
            return
        target = None
        kind = value.get('type', self._default_type(path))
        if kind is not None:
            target = self._resolve(kind, registries, value.get('_scope_'))
            if target is None and path.endswith('.nms'):
                target = _operator(kind)
            if target is None and self._is_certain(path):
                yield self._unknown_type(path, kind, registries)
            yield from self._typed(path, value, target, registries, owner)
        else:
            yield from self._plain(path, value, owner)
        if path.startswith('model') and inspect.isclass(target):
            self.classes.add(target)
        for name, part in value.items():
            if str(name) != 'type':
                yield from self._visit(
                    f'{path}.{name}', part,
                    _registries(path, name, registries), target or owner)

    def _typed(self, path: str, value: Mapping, target: Callable | None,
               registries: tuple[str, ...],
               owner: Callable | None) -> Iterator[Unread]:
        """Compare with the arguments of a class."""
        names = None if target is None else _arguments(target)
        last = path.split('.')[-1]
        if names is None or last.endswith('norm_cfg'):
            return
        beside = {'type', '_scope_'}.union(
            *(_BESIDE.get(name, ()) for name in registries))
        if last == 'nms':  # called by its name, beside a few of the caller's
            beside |= {'class_agnostic', 'split_thr', 'max_num'}
        if owner is not None:
            beside |= words(owner) if inspect.isclass(owner) else set()
        shown = getattr(target, '__name__', str(target))
        for name in value:
            if name not in names | beside:
                yield Unread(f'{path}.{name}', name,
                             f"{shown} has no argument '{name}'", names)

    def _plain(self, path: str, value: Mapping,
               owner: Callable | None) -> Iterator[Unread]:
        """Compare with what the readers of a dict without a type look up."""
        last = path.split('.')[-1]
        names = _readers(path, self.cfg)
        if path.startswith('optim_wrapper.paramwise_cfg'):
            names = self._paramwise(path)
        if names is not None:
            yield from self._compare(path, value, names,
                                     'nothing reads')
        elif path in _OF_STAGES and 'roi_head' in self.cfg.model and (
                inspect.isclass(owner)):
            yield from self._compare(
                path, value, words(owner), f'{owner.__name__} has settings of '
                'its stages there, below rpn and rcnn, and does not read')
        elif path.startswith('model.') and any(
                part in _READ_BY_MODEL for part in path.split('.')[1:]):
            self.later.append((path, value))
        elif last in _READ_BY_CLASSES and inspect.isclass(owner):
            yield from self._compare(path, value, words(owner),
                                     f'{owner.__name__} does not read',
                                     sure=False)

    def _paramwise(self, path: str) -> frozenset[str] | None:
        """What the constructor of the optimizer reads for parameters."""
        settings = self.cfg.optim_wrapper
        if path.endswith('.paramwise_cfg'):
            kind = settings.get('constructor',
                                'DefaultOptimWrapperConstructor')
            target = self._resolve(kind, ('OPTIM_WRAPPER_CONSTRUCTORS', ),
                                   None)
            return words(target) if inspect.isclass(target) else None
        if path.endswith('.custom_keys'):
            return None
        optimizer = self._resolve(
            (settings.get('optimizer') or {}).get('type'), ('OPTIMIZERS', ),
            None)
        names = accepted(optimizer) if inspect.isclass(optimizer) else None
        # Settings of a group of parameters are the optimizer's to read, or
        # those of hooks that look at groups, as SimSiam's for `fix_lr`.
        return names and names.union(
            words(optimizer), *self._hooks_of_groups(),
            {'lr_mult', 'decay_mult'})

    def _hooks_of_groups(self) -> Iterator[frozenset[str]]:
        for settings in self.cfg.get('custom_hooks') or ():
            kind = settings.get('type') if isinstance(
                settings, Mapping) else None
            target = self._resolve(kind, ('HOOKS', ), None)
            if inspect.isclass(target) and 'param_groups' in words(target):
                yield words(target)

    @staticmethod
    def _compare(path: str, value: Mapping, names: Iterable[str],
                 problem: str, sure: bool = True) -> Iterator[Unread]:
        for name in value:
            if name not in names and name != '_scope_':
                yield Unread(f'{path}.{name}', name, f"{problem} '{name}'",
                             names, sure)

    def _default_type(self, path: str) -> str | None:
        if path.endswith('data_preprocessor') and self._scope == 'mmpretrain':
            own = self.cfg.get('model') or ()
            return _PREPROCESSORS['predictor' in own]
        return _DEFAULT_TYPES.get(path)

    @property
    def _scope(self) -> str:
        return toolbox(self.cfg) or 'mmengine'

    def _resolve(self, kind, registries: Iterable[str],
                 scope: str | None) -> Callable | None:
        """The class that a type names; None where none is found."""
        if not isinstance(kind, str):
            return kind if callable(kind) else None
        for registry in self._registries_of(registries, scope):
            try:
                target = registry.get(kind)
            # What is registered may be broken, and any text be a type.
            except Exception:
                continue
            if target is not None:
                return target
        return None

    def _registries_of(self, names: Iterable[str],
                       scope: str | None) -> Iterator[Registry]:
        for package in (scope or self._scope, 'mmengine'):
            try:
                module = importlib.import_module(f'{package}.registry')
            except ImportError:
                continue
            for name in names:
                if isinstance(getattr(module, name, None), Registry):
                    yield getattr(module, name)

    @staticmethod
    def _is_certain(path: str) -> bool:
        """Whether what stands there is surely built from a registry."""
        parts = [part for part in path.split('.') if not part.isdigit()]
        if parts[0] == 'model':
            return len(parts) == 1 or parts[-1] in (
                'backbone', 'neck', 'head', 'bbox_head', 'predictor')
        return len(parts) == 1 or parts[-1] in (
            'optimizer', 'pipeline', 'dataset', 'sampler', 'batch_sampler',
            'default_hooks', 'vis_backends') or parts[-2] == 'default_hooks'

    def _unknown_type(self, path: str, kind,
                      registries: tuple[str, ...]) -> Unread:
        known = {name for registry in self._registries_of(registries, None)
                 for name in registry.module_dict}
        return Unread(
            f'{path}.type', kind,
            f'{kind} is not in the registry {registries[0]}', known)


def _registries(path: str, name: str,
                registries: tuple[str, ...]) -> tuple[str, ...]:
    if name == 'sampler' and path.endswith('_dataloader'):
        return ('DATA_SAMPLERS', )
    return _NESTED.get(name, registries)


def _operator(kind: str) -> Callable | None:
    """A function of mmcv's compiled ``nms``, which has no registry."""
    try:
        module = importlib.import_module('mmcv.ops.nms')
    except ImportError:  # mmcv-lite
        return None
    return getattr(module, str(kind), None)


def _arguments(target: Callable) -> frozenset[str] | None:
    if inspect.isclass(target) and issubclass(target, CheckpointHook):
        # What the hook does not know it passes on when it saves.
        own = set(inspect.signature(CheckpointHook.__init__).parameters)
        return frozenset(own | accepted(Runner.save_checkpoint))
    return accepted(target)


def _readers(path: str, cfg: Config) -> frozenset[str] | None:
    """What mmengine reads in a dict that has no class."""
    if path.count('.') == 0 and path.endswith('_dataloader'):
        return (accepted(torch.utils.data.DataLoader)
                | texts(Runner.build_dataloader))
    if path == 'train_cfg':
        loop = (EpochBasedTrainLoop if cfg.train_cfg.get('by_epoch', True)
                else IterBasedTrainLoop)
        return accepted(loop) | {'by_epoch'}
    if path == 'optim_wrapper.clip_grad':
        return (accepted(torch.nn.utils.clip_grad_norm_)
                | accepted(torch.nn.utils.clip_grad_value_) | {'type'})
    if path == 'env_cfg.dist_cfg':
        return (frozenset(inspect.signature(init_dist).parameters)
                | accepted(torch.distributed.init_process_group) | {'port'})
    return _functions().get(path)


def _functions() -> dict[str, frozenset[str]]:
    return {
        'auto_scale_lr': texts(Runner.scale_lr),
        'env_cfg': texts(Runner.setup_env),
        'env_cfg.mp_cfg': accepted(set_multi_processing),
        'randomness': accepted(Runner.set_randomness),
    }
