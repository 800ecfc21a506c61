# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Where a study runs: the folders of its runs, and the encoders in them."""
import contextlib
import fcntl
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from qbheat_mm.engine.checkpoint import latest
from qbheat_mm.errors import UserError

from .design import Run, Study

#: The file that an encoder's run gets when it has ended, with its recipe.
ENDED = 'ended.json'


@dataclass(frozen=True)
class Place:
    """Where a study runs.

    Attributes:
        root: The project's folder, with ``tools`` and ``configs``.
        work_dir: Gets a folder ARM/SEED/STAGE for each run.
        options: ``KEY=VALUE`` settings of all runs, for tests.
        machine: Whose encoders are there, as in the rows.
    """
    root: Path
    work_dir: Path
    options: Sequence[str] = ()
    machine: str = ''

    def folder(self, run: Run) -> Path:
        """The work folder of a run."""
        return self.work_dir / run.arm / str(run.seed) / run.stage


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[int]:
    """Lock a work folder; gives the file descriptor that holds the lock.

    Raises:
        UserError: Another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / 'lock', 'w') as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(
                f"'{folder}' is in use by another study, or by a training "
                'that one left behind when it was killed: wait for its end, '
                'or give --results and --work-dir others') from error
        yield file.fileno()


def recipe(study: Study, place: Place, encoder: Run) -> str:
    """The settings that an encoder is made by, and the machine.

    How many epochs take as long as another arm does is a machine's, too.
    """
    return json.dumps([study.settings(encoder), list(place.options),
                       place.machine])


def checkpoint(study: Study, place: Place, encoder: Run) -> Path | None:
    """The last checkpoint of an encoder that was made by these settings.

    None where its run has not ended, or was by others.
    """
    folder = place.folder(encoder)
    ended = folder / ENDED
    if not ended.exists() or ended.read_text() != recipe(
            study, place, encoder):
        return None
    file = latest(str(folder))
    return Path(file) if file else None


def mark_ended(study: Study, place: Place, encoder: Run) -> None:
    """Say that an encoder's run has ended well, and by which settings."""
    (place.folder(encoder) / ENDED).write_text(recipe(study, place, encoder))


def encoder_file(study: Study, place: Place, encoder: Run) -> Path:
    """The checkpoint of an encoder, which must be there."""
    file = checkpoint(study, place, encoder)
    if file is None:
        raise UserError(f"'{place.folder(encoder)}' holds no checkpoint of "
                        f'{encoder}: has its run ended?')
    return file
