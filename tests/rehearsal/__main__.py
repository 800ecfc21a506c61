# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Run every shipped recipe to its end on data with the true shape.

The training pipeline of each config loads samples. Of the configs that differ
only in the number of epochs, one is trained, tested and resumed, with the
encoder, teacher or checkpoint of an earlier run where it takes one. One of
each kind is also trained by two processes, and three by two machines and by
`mim train`. Only lengths and batch sizes are changed; detectors keep boxes of
any score, since untrained ones are sure of none.
"""
import argparse
import re
import shutil
import sys
import time
from pathlib import Path

from . import recipes
from .recipes import Recipe
from .schedule import COSTS, Stage, plan, rehearse


def table(finished: list[Stage], chosen: list[Recipe],
          minutes: float) -> str:
    """Return what happened to each config, in Markdown."""
    results, trained, seconds = {}, {}, 0.
    for stage in finished:
        first = stage.problem.partition('\n')[0] or 'ok'
        results[stage.recipe.name, stage.name] = (
            f'{first.replace("|", "/")} ({stage.seconds:.0f} s)')
        seconds += stage.seconds
        if stage.name == 'train':
            trained[stage.recipe.run] = f'as `{Path(stage.recipe.name).name}`'
    rows = [['config', *COSTS], ['---'] * (1 + len(COSTS))]
    for recipe in chosen:
        row = [f'`{recipe.name}`']
        for name in COSTS:
            row.append(results.get((recipe.name, name), ''))
        row[2] = row[2] or trained.get(recipe.run, '')
        rows.append(row)
    text = '\n'.join(f'| {" | ".join(row)} |' for row in rows)
    failed = [stage for stage in finished if stage.problem]
    return (f'{text}\n\n{len(finished)} stages of {len(chosen)} configs in '
            f'{minutes:.0f} minutes ({seconds / 60:.0f} of CPU time), '
            f'{len(failed)} failed\n')


def choose(pattern: str) -> list[Recipe]:
    """Return the recipes whose names match, except those that cannot run."""
    chosen = []
    for name in filter(re.compile(pattern).search, recipes.names()):
        recipe = recipes.read(name)
        if recipe.missing:
            print(f'{name}: needs {recipe.missing}, which is not installed')
        else:
            chosen.append(recipe)
    return chosen


def main() -> None:
    """Rehearse; exit with status 1 if anything failed."""
    parser = argparse.ArgumentParser(
        prog='python -m rehearsal', description=__doc__)
    parser.add_argument('--folder', type=Path, help='replaced',
                        default=recipes.ROOT / 'work_dirs/rehearsal')
    parser.add_argument('--samples', type=int, default=200)
    parser.add_argument('--only', default='', help='pattern of config names')
    parser.add_argument('--workers', type=int, default=2)
    args = parser.parse_args()
    folder = args.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    (folder / 'logs').mkdir(parents=True)
    begin = time.monotonic()
    recipes.draw_all(folder)
    chosen = choose(args.only)
    finished = []
    for stage in rehearse(plan(chosen, args.samples), args.workers, folder):
        finished.append(stage)
        minutes = (time.monotonic() - begin) / 60
        text = table(finished, chosen, minutes)
        (folder / 'table.md').write_text(text)  # also if it is stopped
    print(text)
    sys.exit(any(stage.problem for stage in finished))


if __name__ == '__main__':
    main()
