# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The numbers that a run logs, and how they go together."""
import re
from collections.abc import Iterable, Mapping, Sequence

Points = list[tuple[float, float]]

#: What mmengine writes into every line and nobody plots.
_NOT_PLOTTED = {'step', 'iter', 'epoch', 'time', 'data_time', 'memory'}
#: Titles and names of curves that belong into one panel.
_PANELS = (
    ('training loss', r'(.+\.)?loss(_\w+)?|\w+\.loss\w*'),
    ('learning rate', r'(base_)?lr'),
    ('loss with A and B, and of copies', r'analysis/loss(_copied)?'),
    ('loss by direction, half a step', r'analysis/loss_half_\w+'),
    ('loss by direction, a quarter', r'analysis/loss_quarter_\w+'),
    ('norms of A and B', r'analysis/norm_\w+'),
    ('energies E(A) / E(B)', r'analysis/energy_ratio_\w+'),
    ('effective rank', r'analysis/effective_rank'),
    ('mean similarities', r'analysis/\w+_similarity\w*'),
    ('k-NN accuracy (%)', r'analysis/knn_\w+'),
    ('accuracy (%)', r'accuracy/.+'),
    ('COCO, boxes', r'coco/bbox_.+'),
    ('COCO, masks', r'coco/segm_.+'),
)


def curves(runs: Iterable[Sequence[Mapping]]) -> dict[str, Points]:
    """Curves of the lines that one run after another has logged.

    Args:
        runs (Iterable[Sequence[Mapping]]): Lines of mmengine's
            ``scalars.json``, of a run and of those that resumed it, in the
            order of time. Where a later one begins, the earlier one ends.

    Returns:
        dict[str, list[tuple[float, float]]]: Name to steps and values.
        Validation counts epochs where the run does.
    """
    found: dict[str, Points] = {}
    for lines in runs:
        new: dict[str, Points] = {}
        for line in lines:
            for name, value in line.items():
                if name not in _NOT_PLOTTED and 'step' in line and isinstance(
                        value, int | float):
                    new.setdefault(name, []).append((line['step'], value))
        for name, points in new.items():
            kept = [point for point in found.get(name, [])
                    if point[0] < points[0][0]]
            found[name] = kept + points
    return found


def panels(found: Mapping[str, Points]) -> dict[str, dict[str, Points]]:
    """Curves by the panel that they are drawn in.

    Args:
        found (Mapping[str, Points]): Of :func:`curves`.

    Returns:
        dict[str, dict[str, Points]]: Title of a panel to short names and
        curves. What belongs to no panel of ours has one of its own.
    """
    drawn: dict[str, dict[str, Points]] = {}
    order = [title for title, _ in _PANELS]
    for name, points in found.items():
        title = next((title for title, pattern in _PANELS
                      if re.fullmatch(pattern, name)), name)
        drawn.setdefault(title, {})[name.split('/')[-1]] = points
    return dict(sorted(drawn.items(), key=lambda item: (
        order.index(item[0]) if item[0] in order else len(order))))
