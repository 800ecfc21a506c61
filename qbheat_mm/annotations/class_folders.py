# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read images in folders of classes, perhaps below those of splits."""
import os.path as osp
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from ..errors import UserError
from .files import ExportFiles, split_named
from .records import ListedExport, ListedImage

_MASK = '(mask|gt|ground.?truth|label|seg|segmentation)s?'
#: The end of a mask's name, which begins like its image's.
_MASK_NAME = re.compile(rf'[ _.-]*{_MASK}$', re.IGNORECASE)
#: Folders of masks, and of their images.
_MASK_FOLDER = re.compile(rf'{_MASK}|(image|img)s?', re.IGNORECASE)


def read_class_folders(files: ExportFiles) -> ListedExport:
    """Read CLASS/... or SPLIT/CLASS/...; a split has folders below it.

    Raises:
        UserError: If images may be masks of others.
    """
    parents = {}
    for path in files.images:
        parents[path] = osp.relpath(path, files.image_root).split('/')[:-1]
    inner = _inner_folders(parents.values())
    splits = {}
    for folder, folders in inner.items():
        split = split_named(folder)
        if split and folders != {''}:
            splits[folder] = split
    images, classes = [], defaultdict(list)
    for path, folders in parents.items():
        split = splits.get(folders[0], '') if folders else ''
        below = folders[1:] if split else folders
        if split and inner[folders[0]] == {folders[0]}:
            below = below[1:]  # archives may have train/train/CLASS
        image = ListedImage(path, files.image_root, split=split, file=path)
        if below:
            image.label = below[0]
            images.append(image)
            classes[split, image.label].append((below[1:], path))
        else:
            files.account.skip(image, 'outside of class folders')
    for (_, label), paths in classes.items():
        _reject_masks(label, paths)
    return ListedExport('Class folders', images)


def _inner_folders(parents: Iterable[Sequence[str]]) -> dict[str, set[str]]:
    """Map each outer folder to those in it; '' stands for its images."""
    inner = defaultdict(set)
    for folders in parents:
        if folders:
            inner[folders[0]].add(folders[1] if len(folders) > 1 else '')
    return inner


def _reject_masks(label: str, paths: Sequence[tuple[list[str], str]]) -> None:
    """Raise UserError if a third of a class's images may be masks, or copies.

    Their names differ from an image's in the extension, the word "mask" or
    the like, or a folder of such a name.

    Args:
        label (str): The class.
        paths (Sequence[tuple[list[str], str]]): For each image, the folders
            within that of the class, and the path.
    """
    photos = defaultdict(list)
    for folders, path in paths:
        place = [name for name in folders if not _MASK_FOLDER.fullmatch(name)]
        name = osp.splitext(osp.basename(path))[0]
        photos[(*place, _MASK_NAME.sub('', name))].append(path)
    if 3 * (len(paths) - len(photos)) >= len(paths):
        first, second, *_ = max(photos.values(), key=len)
        raise UserError(
            f"'{first}' and '{second}' share a name, as an image and its mask "
            f'do, and so do many images of class {label!r}: move masks and '
            'copies elsewhere')
