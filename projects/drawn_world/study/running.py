# Copyright (c) QB-Heat MM authors. All rights reserved.
"""From a study to the commands that are left, in their order."""
import datetime
import json
import math
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mmengine.config import Config

from qbheat_mm.cli.command_line import quoted
from qbheat_mm.errors import UserError

from ..jobs import Job, JobRunner
from ..results import read_log, read_metric
from .design import ENCODER, Run, Study
from .machine import environment, visible
from .place import Place, alone_in, checkpoint, encoder_file, mark_ended
from .results import Results

#: Among an encoder's figures, its time by :func:`steady_seconds`.
STEADY = 'steady seconds'
#: Commands that may fail before the rest is given up: some are unlucky, more
#: have a cause in common.
FAILURES = 3
#: Of the options of all runs those that a tool that trains nothing takes.
_DATA = ('train_dataloader.dataset.', 'val_dataloader.')


def pending(study: Study, results: Results, place: Place,
            wanted: Callable[[Run], bool] = lambda run: True) -> list[Run]:
    """The runs that are left, what they need before them.

    A run that has a row is done, but for an encoder that others begin with
    and whose checkpoint is not in the work folder, or was made by other
    settings: it is made again. Of a run that tells a time the row is enough.
    """
    order: list[Run] = []

    def require(run: Run) -> None:
        for timing in study.timing(run):
            if timing not in results:
                require(timing)
        start = study.start(run)
        if start and not (start in results
                          and checkpoint(study, place, start)):
            require(start)
        if run not in order:
            order.append(run)

    for run in study.runs():
        if run not in results and wanted(run):
            require(run)
    return order


def check_settings(study: Study, results: Results,
                   options: Sequence[str] | None = None) -> None:
    """Raise for rows that were measured by other settings than the study's.

    Args:
        study (Study): Whose runs they should be.
        results (Results): The rows; those that do not tell their settings
            pass.
        options (Sequence[str], optional): Of all runs. None: as in the first
            row that tells them, since all must agree.

    Raises:
        UserError: A row is of other settings.
    """
    for run in study.runs():
        row = results.rows.get(run, {})
        if 'settings' not in row:
            continue
        options = row['cfg_options'] if options is None else list(options)
        was = [row['settings'], row['cfg_options']]
        now = [study.settings(run), options]
        if was != now:
            raise UserError(
                f"'{results.path}': {run} was measured with "
                f'{_only_in(was, now)}, and would now be with '
                f'{_only_in(now, was)}: give --results another file, or the '
                'arm another name')


def _only_in(settings: list, others: list) -> str:
    """Those of nested settings that others lack, for a message."""
    def flat(items: list) -> list[str]:
        return [word for item in items for word in (
            flat(item) if isinstance(item, list) else [item])]

    left = [word for word in flat(settings) if word not in flat(others)]
    return ' '.join(left) or 'nothing of the kind'


def estimate(study: Study, results: Results, runs: Sequence[Run],
             jobs: int) -> tuple[float, int]:
    """Seconds that runs will take, and for how many nothing was measured.

    A run takes as long as those of its arm and stage did on average; where
    there is none yet, as those of its stage in all arms.
    """
    known = results.mean_seconds()
    total, unknown = 0., 0
    for run in runs:
        same = [known[run.arm, run.stage]] if (
            run.arm, run.stage) in known else [
                seconds for (_, stage), seconds in known.items()
                if stage == run.stage]
        total += sum(same) / len(same) if same else 0
        unknown += not same
    return total / jobs, unknown


def find_config(root: Path, name: str) -> Path:
    """The file of a config; ``demo/``, as in the rows, is this project's."""
    folder = 'configs'
    if name.startswith('demo/'):
        folder, name = 'projects/drawn_world/configs', name[len('demo/'):]
    return root / folder / name


def command(study: Study, results: Results, place: Place,
            run: Run) -> list[str]:
    """The command of a run."""
    arm = study.arm(run.arm)
    if run.stage != ENCODER and study.probe(run.stage).tool:
        return _measuring(study, place, run)
    options = [f'randomness.seed={run.seed}', *arm.encoder]
    start = study.start(run)
    if run.stage == ENCODER:
        config = arm.config
        options += arm.options
        if arm.time_of:
            count = epochs(study, results, place, run.arm)
            options.append(f'train_cfg.max_epochs={count}')
    else:
        probe = study.probe(run.stage)
        config = probe.config
        options += probe.options
        if not start:
            options.append('model.backbone.init_cfg=None')
    if start:
        options.append('model.backbone.init_cfg.checkpoint='
                       + quoted(str(encoder_file(study, place, start))))
    return [
        sys.executable, str(place.root / 'tools' / 'train.py'),
        str(find_config(place.root, config)), '--work-dir',
        str(place.folder(run)), '--cfg-options', *options,
        *_fitting(find_config(place.root, config), place.options)
    ]


def _fitting(config: Path, options: Sequence[str]) -> list[str]:
    """Of the options of all runs those about what a configuration sets.

    Pre-training evaluates nothing: its ``val_dataloader`` is None.
    """
    settings = Config.fromfile(config) if options else {}
    return [option for option in options
            if settings.get(option.partition('=')[0].split('.')[0])]


def _measuring(study: Study, place: Place, run: Run) -> list[str]:
    """The command of a tool that looks at an encoder."""
    probe = study.probe(run.stage)
    config = find_config(place.root, probe.config)
    of_data = [o for o in place.options if o.startswith(_DATA)]
    options = [*study.arm(run.arm).encoder, *probe.options,
               *_fitting(config, of_data)]
    return [
        sys.executable,
        str(place.root / 'projects/drawn_world' / probe.tool), str(config),
        str(encoder_file(study, place, study.start(run))),
        '--out', str(place.folder(run)),
        *(['--cfg-options', *options] if options else ())
    ]


def epochs(study: Study, results: Results, place: Place, arm: str) -> int:
    """Epochs that take as long as another arm did, at this one's pace."""
    pace, goal = study.arm(arm).time_of
    seconds = {name: results.values(name, ENCODER, STEADY).get(
        0, results.seconds(Run(name, 0, ENCODER))) for name in (pace, goal)}
    count = (_configured_epochs(study, place, pace) * seconds[goal] /
             seconds[pace])
    return max(round(count), 1)


def _configured_epochs(study: Study, place: Place, arm: str) -> int:
    """How many epochs an arm trains, by its configuration and options."""
    for option in reversed((*study.arm(arm).options, *place.options)):
        name, _, value = option.partition('=')
        if name == 'train_cfg.max_epochs':
            return int(value)
    config = Config.fromfile(
        find_config(place.root, study.arm(arm).config))
    return config.train_cfg.max_epochs


def run_study(study: Study, results: Results, place: Place,
              runs: Sequence[Run], jobs: int = 2, hours: float = math.inf,
              devices: Sequence[str] = ()) -> None:
    """Run what is left; each finished run becomes a row at once.

    Of several ``devices``, as 'cuda:1', each run gets one.

    Raises:
        JobFailed: A command failed; what does not need it was run, unless
            ``FAILURES`` failed. The rows of all that ended stay.
        UserError: Another study runs in the work folder, or adds to the
            rows.
    """
    by_name = {str(run): run for run in runs}
    commits: dict[Run, str] = {}

    def begin(run: Run) -> list[str]:
        commits[run] = commit(place.root)
        # It starts anew.
        shutil.rmtree(place.folder(run), ignore_errors=True)
        return command(study, results, place, run)

    def finished(job: Job) -> None:
        run = by_name[job.name]
        if run not in results:
            results.add(run, dict(
                metrics=measured(study, place.folder(run), run),
                seconds=round(runner.seconds[job.name], 1),
                command=portable(runner.commands[job.name], place),
                commit=commits[run],
                date=datetime.date.today().isoformat(),
                environment=environment(runner.threads),
                settings=study.settings(run),
                cfg_options=list(place.options)))
        if run.stage == ENCODER:
            mark_ended(study, place, run)

    with results.alone(), alone_in(place.work_dir) as lock:
        runner = JobRunner(place.work_dir / 'logs', jobs,
                           until=time.monotonic() + 3600 * hours,
                           finished=finished, failures=FAILURES,
                           devices=visible(devices), holds=[lock])
        runner.run([
            Job(str(run), lambda run=run: begin(run),
                [str(n) for n in study.needs(run) if n in runs])
            for run in runs])


def measured(study: Study, folder: Path, run: Run) -> dict[str, float]:
    """The figures that a run has left in its folder.

    Raises:
        UserError: It has not been evaluated, or a figure is no number.
    """
    figures = _figures(study, folder, run)
    for name, value in figures.items():
        if not math.isfinite(value):
            raise UserError(f"'{folder}': {name} is {value}, as of a run that "
                            'diverged: give its arm a lower rate')
    return figures


def _figures(study: Study, folder: Path, run: Run) -> dict[str, float]:
    """They, as they were logged."""
    probe = None if run.stage == ENCODER else study.probe(run.stage)
    wanted = (probe or study.arm(run.arm)).metrics
    more = {} if probe else {STEADY: steady_seconds(folder)}
    if probe and probe.tool:
        found = json.loads((folder / 'metrics.json').read_text())
        # Not all encoders have all: without linear models no commutator.
        return {name: round(found[key] * factor, 4)
                for name, (key, factor) in wanted.items() if key in found}
    return more | {name: round(read_metric(folder, logged) * factor, 4)
                   for name, (logged, factor) in wanted.items()}


def steady_seconds(folder: Path) -> float:
    """What a training's steps take, were each as long as their median.

    That is the same whatever else the machine did for some of the time, and
    without the start, which does not grow with the epochs.
    """
    steps = [line for line in read_log(folder)
             if 'time' in line and 'loss' in line]
    return round(statistics.median(line['time'] for line in steps)
                 * steps[-1]['step'], 1)


def portable(command: str, place: Place) -> str:
    """A command without the folders of this machine."""
    for folder, name in ((sys.executable, 'python'),
                         (f'{place.work_dir}', 'work_dirs/study'),
                         (f'{place.root}/', ''), (f'{Path.cwd()}/', '')):
        command = command.replace(folder, name)
    return command


def commit(root: Path) -> str:
    """The commit of the code, with ``-dirty`` if files differ from it.

    Those below ``docs`` do not count: the study itself writes there.
    """
    def git(*arguments: str) -> str:
        return subprocess.run(['git', '-C', str(root), *arguments],
                              capture_output=True, text=True).stdout.strip()

    name = git('describe', '--always', '--abbrev=12', '--exclude=*')
    changed = git('status', '--porcelain', '--untracked-files=no', '--',
                  '.', ':!docs')
    return (name or 'unknown') + ('-dirty' if name and changed else '')
