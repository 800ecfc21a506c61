# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The pictures of an annotation file: are they there, of the same size?"""
import os
import os.path as osp
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from PIL import Image

from ..errors import UserError
from .columns import written
from .report import KEPT, STOPS, Report
from .structure import Images

#: Pictures that are opened at the start of a training.
SAMPLE = 200
#: What ``ignore_empty=True`` of the loading transform does with bad ones.
SKIPPED = ' and are skipped (ignore_empty=True)'

_ORIENTATION = 0x0112  # the tag of EXIF
UPRIGHT = (None, 0, 1)

Size = tuple[int, int]


def check_pictures(images: Images,
                   folder: str,
                   size_of: Callable[..., Size],
                   report: Report,
                   deep: Callable[..., Iterable] | None = None,
                   skips: bool = False,
                   sure: bool = False) -> None:
    """Compare the images that a file lists with those in a folder.

    All are looked for. Of :data:`SAMPLE`, evenly spread, the header is read,
    and where that says another size, or that the picture is to be turned,
    the picture.

    Args:
        images (Images): Of the file.
        folder (str): What ``file_name`` is relative to.
        size_of (Callable): Gives width and height of a file as training
            decodes it, in pixels, see :func:`size_loader`; with the declared
            size as second argument raises where the loader doubts that the
            boxes belong to the picture as it decodes it.
        report (Report): Gets what differs.
        deep (Callable, optional): Maps a function over the rows of all
            images, as ``map`` does: every picture is decoded.
        skips (bool): Whether training goes on without images that it cannot
            load. Defaults to False.
        sure (bool): Whether the loader is told if boxes are turned as EXIF
            says (by its ``color_type``), so that no warning is due. Defaults
            to False.
    """
    paths = [osp.join(folder, record['file_name'])
             for record in images.records]
    missing = missing_files(paths)
    if missing:
        report.add(KEPT if skips else STOPS, 'images are not there',
                   len(missing), len(paths),
                   f'as {written(paths[min(missing)])}',
                   'put them there, or mend data_prefix or file_name')
    rows = range(len(paths))
    if deep is None and len(paths) > SAMPLE:
        rows = np.linspace(0, len(paths) - 1, SAMPLE).astype(int).tolist()
    rows = [row for row in rows if row not in missing]

    measure = _Measure(paths, images.sizes, size_of, deep is not None)
    found = dict(zip(rows, (deep or map)(measure, rows)))
    _report(images, paths, found, skips, report)
    if not sure:
        _report_turned(images, paths, found, report)


@dataclass(frozen=True)
class _Measure:
    """Looks at pictures; other processes can be given it."""
    paths: list[str]
    sizes: np.ndarray
    size_of: Callable[..., Size]
    deep: bool

    def __call__(self, row: int) -> Size | str | None:
        """The size, or None if it is as declared, or why there is none."""
        declared = tuple(self.sizes[row])
        try:
            size, orientation = _header(self.paths[row])
            upright = orientation in UPRIGHT
            if not self.deep and upright and size == declared:
                return None
            size = self.size_of(self.paths[row])
            if size == declared and not upright:
                self.size_of(self.paths[row], declared)
            return size
        except UserError as error:
            return str(error)


def size_loader(load: Callable[[dict], dict | None]) -> Callable:
    """What :func:`check_pictures` needs, from a transform that loads.

    Args:
        load (Callable): From ``img_path`` to ``img``, (H, W, 3).
    """
    return partial(_size_of, load)


def _size_of(load: Callable[[dict], dict | None], path: str,
             declared: Size | None = None) -> Size:
    if not osp.isfile(path):  # a pipe would be waited for
        raise UserError(f'{written(path)} is no file')
    results = dict(img_path=path)
    if declared is not None:
        results.update(width=int(declared[0]), height=int(declared[1]))
    try:
        results = load(results)
    except UserError:
        raise
    except Exception as error:  # each decoder has errors of its own
        reason = str(error).split('\n')[0] or type(error).__name__
        raise UserError(f'{written(path)}: {reason}') from error
    if results is None:
        raise UserError(f'{written(path)} is damaged or no image')
    height, width = results['img'].shape[:2]
    return width, height


def _report(images: Images, paths: list[str],
            found: dict[int, Size | str | None], skips: bool,
            report: Report) -> None:
    """Tell what was found in the pictures of some rows."""
    unreadable = [text for text in found.values() if isinstance(text, str)]
    if unreadable:
        some = skips and len(unreadable) < len(found)
        report.add(KEPT if some else STOPS, 'images cannot be used'
                   f'{SKIPPED if some else ""}', len(unreadable), len(found),
                   unreadable[0])
    sizes = {row: size for row, size in found.items()
             if isinstance(size, tuple)}
    other = [row for row, size in sizes.items()
             if size != tuple(images.sizes[row])]
    if other:
        record, (width, height) = images.records[other[0]], sizes[other[0]]
        # The loading transform skips these, too, or stops at them.
        effect = KEPT if skips and len(other) < len(found) else STOPS
        report.add(effect, 'images have another size than the file says, so '
                   'that the boxes belong to another picture', len(other),
                   len(found), f'as {written(record["file_name"])}, '
                   f'{record["width"]}x{record["height"]} in the file and '
                   f'{width}x{height} when loaded (turned as EXIF says)',
                   'write the size of the picture as it is shown, and the '
                   'boxes in its pixels')


def _report_turned(images: Images, paths: list[str],
                   found: dict[int, Size | str | None],
                   report: Report) -> None:
    """Tell of pictures of the declared size that EXIF turns."""
    turned = [row for row, size in found.items()
              if size == tuple(images.sizes[row])
              and _header(paths[row])[1] not in UPRIGHT]
    if turned:
        name = written(images.records[turned[0]]['file_name'])
        report.add(KEPT, 'images are turned or mirrored when loaded, as EXIF '
                   'says', len(turned), len(found), f'as {name}',
                   'the boxes must be drawn on the picture as it is shown')


def missing_files(paths: list[str]) -> set[int]:
    """Rows of the files that are not there; a folder is listed once."""
    there: dict[str, set[str]] = {}
    missing = set()
    for row, path in enumerate(paths):
        folder, name = osp.split(path)
        if folder not in there:
            there[folder] = _listed(folder)
        if name not in there[folder] and not osp.exists(path):
            missing.add(row)
    return missing


def _listed(folder: str) -> set[str]:
    try:
        # A link may lead nowhere.
        return {entry.name for entry in os.scandir(folder or '.')
                if not entry.is_symlink()}
    except (OSError, ValueError):
        return set()


def _header(path: str) -> tuple[Size | None, int | None]:
    """Size as stored and EXIF orientation; None where it is not known."""
    if not osp.isfile(path):
        return None, None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            with Image.open(path) as image:
                return image.size, image.getexif().get(_ORIENTATION)
    except Exception:  # each format has errors of its own
        return None, None
