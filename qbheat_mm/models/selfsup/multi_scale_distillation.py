# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Distill the maps of several strides of a teacher."""
import math
from collections import defaultdict
from collections.abc import Collection, Sequence

import torch
import torch.nn.functional as F
from mmengine.logging import print_log
from mmengine.registry import MODELS
from mmpretrain.registry import MODELS as MMPRETRAIN_MODELS
from torch import Tensor, nn

from ...errors import UserError
from ..outputs import Outputs, num_outputs
from .self_supervisor import SelfSupervisor

#: Finest stride that learns and teaches, as detectors read; ``pairs`` may
#: name finer ones.
FINEST = 8


@MODELS.register_module()
class MultiScaleDistillation(SelfSupervisor):
    """Multi-scale feature distillation: learn a teacher at several strides.

    A linear layer maps the encoder's deepest map of a stride to the maps of
    the teacher that it learns. The smooth L1 losses of all strides are added.
    By default, each map from stride 8 on learns the teacher's map of the
    nearest stride, and the last one also all coarser ones. Maps are sampled
    on the encoder's grid.

    The exported encoder has the ``out_indices`` of the config.

    Args:
        backbone (dict): Config of the encoder.
        target_generator (dict): Config of :class:`EncoderTarget`.
        pairs (Sequence[tuple[int, int]], optional): Strides of the student's
            and the teacher's maps, such as ``[(8, 8), (16, 16), (16, 32)]``.
            Finer ones than 8 are possible. Defaults to the rule above.
        **kwargs: See :class:`SelfSupervisor`.

    Raises:
        UserError: If ``pairs`` names a map that doesn't exist, or leaves out
            the encoder's last one.
    """

    def __init__(self,
                 backbone: dict,
                 target_generator: dict,
                 pairs: Sequence[tuple[int, int]] | None = None,
                 **kwargs) -> None:
        _require_pairs(pairs)
        students = [student for student, _ in pairs or []]
        super().__init__(_with_maps(backbone, students),
                         dict(target_generator, multi_scale=True), **kwargs)
        outputs = Outputs.of(self.backbone)
        self.backbone.train()
        teacher = self.target_generator.teacher
        if pairs is None:
            pairs = pair_strides(outputs.strides, teacher.strides)
        _require_strides([student for student, _ in pairs], outputs)
        self.target_generator.select([taught for _, taught in pairs])
        channels = dict(zip(teacher.strides, teacher.shapes))
        self.taught: dict[int, list[int]] = {}
        for student, taught in pairs:
            self.taught.setdefault(student, []).append(taught)
        self.indices = outputs.deepest
        self.proj = nn.ModuleDict()
        for student, strides in self.taught.items():
            width = 0
            for stride in strides:
                width += channels[stride][0]
            self.proj[str(student)] = nn.Linear(
                outputs.channels[self.indices[student]], width)
        arrows = [f'{student} <- {taught}' for student, taught in pairs]
        print_log('multi-scale distillation, strides of student and teacher: '
                  f'{", ".join(arrows)}', 'current')

    def loss(self,
             inputs: Tensor,
             data_samples: list | None = None) -> dict[str, Tensor]:
        """Compute the losses of images (B, 3, H, W), one for each stride."""
        feats = self._run(self.backbone, nn.Conv2d, inputs)
        maps = [feat for feat in feats if feat.ndim == 4]
        students, wanted = [], []
        for student, strides in self.taught.items():
            grid = maps[self.indices[student]].shape[2:]
            for stride in strides:
                students.append(student)
                wanted.append((stride, grid))
        targets = defaultdict(list)
        for student, target in zip(students, self.target_generator.of_maps(
                inputs, data_samples, wanted)):
            targets[student].append(target)
        losses = {}
        for student, parts in targets.items():
            feat = maps[self.indices[student]].flatten(2).transpose(1, 2)
            losses[f'loss_{student}'] = self.compare(
                self.proj[str(student)](feat), torch.cat(parts, 2))
        return losses

    def compare(self, pred: Tensor, target: Tensor) -> Tensor:
        """Compute the loss of predicted features (B, L, C)."""
        return F.smooth_l1_loss(pred, target)

    def extract_feat(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the encoder's last map of whole images (B, 3, H, W)."""
        return super().extract_feat(inputs)[-1:]


def pair_strides(student: Collection[int], teacher: Collection[int]
                 ) -> list[tuple[int, int]]:
    """Pair the strides of maps: who learns from whom.

    Each map of the student learns the teacher's map of the nearest stride,
    the finer one of two. The last map also learns all coarser ones. Maps
    finer than stride 8 take no part, unless there are no others.

    Args:
        student, teacher (Collection[int]): Strides of all maps.

    Returns:
        list[tuple[int, int]]: Strides of student and teacher.
    """
    students, teachers = _coarse(student), _coarse(teacher)
    pairs = []
    for stride in students:
        nearest = min(teachers,
                      key=lambda other: abs(math.log2(other / stride)))
        pairs.append((stride, nearest))
    for stride in teachers:
        if stride > nearest:
            pairs.append((students[-1], stride))
    return pairs


def _coarse(strides: Collection[int]) -> list[int]:
    """Sort the strides of 8 and above; the coarsest if there are none."""
    chosen = sorted({stride for stride in strides if stride >= FINEST})
    return chosen or [max(strides)]


def _require_pairs(pairs: Sequence | None) -> None:
    """Raise UserError unless pairs are some of two strides, or None."""
    if pairs is None:
        return
    strides = []
    try:
        for student, taught in pairs:
            strides += [student, taught]
    except (TypeError, ValueError):
        strides.clear()
    if not strides or not all(isinstance(each, int) for each in strides):
        raise UserError(
            f'model.pairs={pairs!r} must be pairs of a stride of the student '
            'and one of the teacher, such as [(8, 8), (16, 32)]')


def _require_strides(wanted: Collection[int], outputs: Outputs) -> None:
    """Raise UserError unless an encoder has maps of some strides."""
    missing = {*wanted} - {*outputs.strides}
    if missing:
        raise UserError(
            'model.pairs: the encoder has maps of strides '
            f'{sorted({*outputs.strides})}, not {sorted(missing)}')


def _require_last(wanted: Collection[int], outputs: Outputs) -> None:
    """Raise UserError if an encoder's last map would stay random."""
    last = outputs.strides[-1]
    if last not in wanted:
        raise UserError(
            'model.pairs leave the last map of the encoder, of stride '
            f'{last}, without a target: add a pair ({last}, ...)')


def _with_maps(backbone: dict, strides: Collection[int]) -> dict:
    """Let a backbone return the deepest map of some strides.

    Without any, those of 8 and above.
    """
    settings = {**backbone, 'init_cfg': None}
    # Building draws random weights, which must not change the encoder's.
    with torch.random.fork_rng(devices=[]):
        given = MMPRETRAIN_MODELS.build(dict(settings))
        if strides:
            _require_last(strides, Outputs.of(given))
        number = num_outputs(given)
        if number is None:
            return backbone
        outputs = Outputs.of(MMPRETRAIN_MODELS.build(dict(
            settings, out_indices=tuple(range(number)))))
    _require_strides(strides, outputs)
    chosen = {*strides} or _coarse(outputs.strides)
    indices = map(outputs.deepest.get, chosen)
    return dict(backbone, out_indices=tuple(sorted(indices)))
