# Copyright (c) QB-Heat MM authors. All rights reserved.
"""A copy of an image folder whose files are no larger than training needs."""
import os
import os.path as osp
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    ProcessPoolExecutor,
    as_completed,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context

import cv2
import mmcv
from PIL import Image

from ..errors import UserError
from .extensions import Folder, image_endings
from .image_file import ImageProblem, decode, read_file

#: What can become of a file; whatever else comes back is a problem.
WRITTEN, COPIED, THERE = 'shrunk', 'small already', 'there already'
LARGER = 'there already and larger (remove them to shrink them anew)'
_GOOD = (WRITTEN, COPIED, THERE, LARGER)
_PART = '.part'
#: How every JPEG file begins, whatever its name, and its longest side.
_JPEG, _LARGEST = b'\xff\xd8\xff', 65500
#: Files that a process gets at a time, and how often that for each process
#: lies ready.
_CHUNK, _READY = 8, 4


def plan(source: str, target: str) -> dict[str, str]:
    """The files of ``source`` that are images, and their names in ``target``.

    Returns:
        dict[str, str]: From relative path to relative path, which ends in
        ``.jpg``.

    Raises:
        UserError: If there is no image, one folder lies in the other, or two
            images would get one name.
    """
    if not osp.isdir(source):
        raise UserError(f"'{source}' is no folder: give that of the images")
    inner, outer = osp.realpath(target), osp.realpath(source)
    if osp.commonpath([inner, outer]) in (inner, outer):
        raise UserError(f"target '{target}' must lie outside of '{source}', "
                        'and not around it: give another folder')
    names: dict[str, str] = {}
    folder = Folder(source, image_endings())
    for name in folder.images:
        new = f'{osp.splitext(name)[0]}.jpg'
        if new in names:
            raise UserError(
                f"images '{names[new]}' and '{name}' of '{source}' would both "
                f"become '{new}': rename one")
        names[new] = name
    if not names:
        raise UserError(
            f"'{source}' holds no image: found "
            f'{folder.describe_others() or "nothing"}; give another folder')
    folder.warn_of_others()
    return {name: new for new, name in names.items()}


def shrink(source: str, target: str, short_side: int, quality: int = 90,
           processes: int = 1, names: Mapping[str, str] | None = None
           ) -> Iterator[str]:
    """Write every image of a folder as a JPEG file of limited size.

    Files that are there already are left, so that what was killed goes on.
    Each file is complete or absent.

    Args:
        source (str): Folder of images, at any depth.
        target (str): Made if needed; the folders inside are kept.
        short_side (int): Pixels of the shorter side; no image is enlarged.
        quality (int): Of JPEG, 1 to 100. Defaults to 90.
        processes (int): Defaults to 1.
        names (Mapping[str, str], optional): Of :func:`plan`, where it was
            called before. Defaults to None.

    Yields:
        str: ``WRITTEN``, ``COPIED``, ``THERE`` or ``LARGER`` of an image, or
        a line that names it and what is wrong with it; in no order.

    Raises:
        UserError: See :func:`plan`; or a process was killed.
    """
    pairs = list((names or plan(source, target)).items())
    one = partial(_one, source, target, short_side, quality)
    if processes == 1:
        yield from map(one, pairs)
    else:
        yield from _side_by_side(one, pairs, processes)


def _side_by_side(one: Callable, pairs: Sequence[tuple[str, str]],
                  processes: int) -> Iterator[str]:
    """Outcomes of all files as they come, from several processes."""
    starts = range(0, len(pairs), _CHUNK)
    waiting = set()
    try:
        # Threads of OpenCV don't survive a fork.
        context = get_context('forkserver')
        context.set_forkserver_preload([__name__])
        with ProcessPoolExecutor(processes, context) as pool:
            for start in starts:
                if len(waiting) >= processes * _READY:
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield from future.result()
                waiting.add(pool.submit(
                    _several, one, pairs[start:start + _CHUNK]))
            for future in as_completed(waiting):
                yield from future.result()
    except BrokenProcessPool as error:
        raise UserError(
            'a process that shrinks images was killed, by want of memory '
            'perhaps: run again with fewer --processes; what is written '
            'stays') from error


def _several(one: Callable, pairs: Sequence[tuple[str, str]]) -> list[str]:
    return [one(pair) for pair in pairs]


def summary(outcomes: Counter) -> str:
    """As "12 shrunk, 3 small already, 1 cannot be read"."""
    bad = sum(n for what, n in outcomes.items()
              if what not in _GOOD)
    words = [f'{outcomes[what]} {what}' for what in _GOOD if outcomes[what]]
    return ', '.join([*words, *([f'{bad} left out'] if bad else [])])


def _one(source: str, target: str, short_side: int, quality: int,
         names: tuple[str, str]) -> str:
    """Shrink one file."""
    cv2.setNumThreads(1)
    path, new = osp.join(source, names[0]), osp.join(target, names[1])
    if osp.exists(new):
        there = _short_side(new)
        if there is None:
            return (f'image {path!r} is not written: {new!r} is there and is '
                    'no image; remove that')
        return LARGER if there > short_side else THERE
    try:
        content = read_file(path)
        image = decode(content)
    except ImageProblem as problem:
        return f'image {path!r} {problem}'
    ratio = short_side / min(image.shape[:2])
    if ratio >= 1 and content.startswith(_JPEG):
        _write(new, content)
        return COPIED
    if ratio < 1:
        height, width = (max(round(side * ratio), 1)
                         for side in image.shape[:2])
        image = mmcv.imresize(image, (width, height),
                              interpolation='bicubic', backend='pillow')
    height, width = image.shape[:2]
    if max(height, width) > _LARGEST:
        return (f'image {path!r} cannot be written as JPEG: {width} x '
                f'{height} pixels, at most {_LARGEST} on a side')
    _, content = cv2.imencode('.jpg', image,
                              [cv2.IMWRITE_JPEG_QUALITY, quality])
    _write(new, content.tobytes())
    return WRITTEN


def _short_side(path: str) -> int | None:
    """Pixels, by the header of a file; None if that is of no image."""
    try:
        with Image.open(path) as image:
            return min(image.size)
    except OSError:
        return None


def _write(path: str, content: bytes) -> None:
    """Write a file so that it never lies there in part."""
    part = f'{path}{_PART}{os.getpid()}'
    try:
        os.makedirs(osp.dirname(path), exist_ok=True)
        with open(part, 'wb') as file:
            file.write(content)
        os.replace(part, path)
    except OSError as error:
        raise UserError(f"'{path}' cannot be written "
                        f'({error.strerror or error}): give another '
                        'folder, or make room') from error
    finally:
        if osp.exists(part):
            os.remove(part)
