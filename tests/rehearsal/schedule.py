# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Plan the stages of a rehearsal, and run each in a process of its own."""
import json
import multiprocessing
import os
import resource
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from . import stages
from .recipes import Recipe, is_large

# Forks from a process that has imported everything.
PROCESSES = multiprocessing.get_context('forkserver')
PROCESSES.set_forkserver_preload([stages.__name__])
#: Rough CPU seconds of the stages, for the time left.
COSTS = dict(build=4, train=30, launch=80, mim=60)
#: When recipes are trained, by what they start from.
TURNS = {'': 0, 'encoder': 1, 'teacher': 1, 'load_from': 2}


@dataclass
class Stage:
    """A stage of a recipe, run in a process of its own.

    Attributes:
        action (Callable): A function of :mod:`stages`.
        recipe (Recipe): Its first argument.
        args (tuple): The others.
        problem (str): What went wrong, if anything.
        seconds (float): CPU time of the process and its children.
    """
    action: Callable
    recipe: Recipe
    args: tuple = ()
    problem: str = ''
    seconds: float = 0.

    @property
    def name(self) -> str:
        return self.action.__name__

    def run(self, folder: Path) -> 'Stage':
        """Run in a new process, and read its result."""
        log = folder / f'logs/{self.name}-{Path(self.recipe.name).stem}.log'
        process = PROCESSES.Process(
            target=self.perform, args=(folder, log))
        process.start()
        process.join()
        result = log.with_suffix('.json')
        if result.exists():
            self.problem, self.seconds = json.loads(result.read_text())
        else:
            self.problem = f'ended with {process.exitcode}, see {log}'
        return self

    def perform(self, folder: Path, log: Path) -> None:
        """Run in this process, and write the result next to the log."""
        with log.open('w') as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.chdir(folder)
        problem = ''
        try:
            self.action(self.recipe, *self.args)
        except BaseException as error:  # tools exit
            traceback.print_exc()
            problem = f'{type(error).__name__}: {error}'
        seconds = 0.
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
            usage = resource.getrusage(who)
            seconds += usage.ru_utime + usage.ru_stime
        log.with_suffix('.json').write_text(json.dumps((problem, seconds)))


def plan(chosen: Iterable[Recipe], samples: int) -> list[list[Stage]]:
    """Return the stages of recipes, in steps that build on each other.

    In each, large encoders come first, so that none is left for one worker.
    """
    chosen = sorted(chosen, key=lambda recipe: not is_large(recipe.name))
    builds, kinds, tools = [], {}, {}
    trainings = {}, {}, {}
    for recipe in chosen:
        builds.append(Stage(stages.build, recipe, (samples, )))
        trainings[TURNS[recipe.start]].setdefault(recipe.run, recipe)
        if '285m' in recipe.name:  # the smallest encoder
            kinds.setdefault(recipe.kind, recipe)
            tools.setdefault((recipe.toolbox, bool(recipe.metric)), recipe)
    steps = [builds]
    for runs in trainings:
        steps.append([Stage(stages.train, each) for each in runs.values()])
    launches = []
    for each in tools.values():
        launches.append(Stage(stages.mim, each))
    for each in kinds.values():
        launches.append(Stage(stages.launch, each, (each in tools.values(), )))
    return [*steps, launches]


def rehearse(steps: list[list[Stage]], workers: int,
             folder: Path) -> Iterator[Stage]:
    """Run all stages, print each with the time left, and yield it."""
    total = sum(COSTS[stage.name] for step in steps for stage in step)
    begin, done = time.monotonic(), 0
    with ThreadPoolExecutor(workers) as pool:
        for step in steps:
            running = [pool.submit(stage.run, folder) for stage in step]
            for future in as_completed(running):
                stage = future.result()
                done += COSTS[stage.name]
                minutes = (time.monotonic() - begin) / 60
                print(f'{minutes:.1f} min, {minutes * (total / done - 1):.0f} '
                      f'left: {stage.name} {stage.recipe.name}: '
                      f'{stage.problem or "ok"}', flush=True)
                yield stage
