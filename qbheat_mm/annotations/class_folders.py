# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read images in class folders, which may be inside split folders."""
import os
import os.path as osp
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from ..datasets.folders import is_skipped
from ..errors import UserError
from .account import Kind
from .files import ExportFiles, split_named
from .records import ListedExport, ListedImage

_MASK = '(mask|gt|ground.?truth|label|seg|segmentation)s?'
#: The end of a mask's name, which begins like its image's.
_MASK_NAME = re.compile(rf'[ _.-]*{_MASK}$', re.IGNORECASE)
_MASK_FOLDER = re.compile(_MASK, re.IGNORECASE)
#: Folders of masks, and of their images.
_INNER_FOLDER = re.compile(rf'{_MASK}|(image|img)s?', re.IGNORECASE)
#: Names of splits, with words that say no more about their images.
_SPLIT_NAME = re.compile(
    r'[^a-z]*((image|img|photo|picture|data|set)s?[^a-z]*)*'
    r'(train|training|val|valid|validation|test|testing)'
    r'([^a-z]*(image|img|photo|picture|data|set)s?)*[^a-z]*', re.IGNORECASE)


def read_class_folders(files: ExportFiles) -> ListedExport:
    """Read CLASS/... or SPLIT/CLASS/...; a split has folders below it.

    Raises:
        UserError: If images may be masks of others, or a folder next to the
            classes may be a split.
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
    if not splits:
        _reject_splits(inner, files.image_root)
    images, classes = [], defaultdict(list)
    for path, folders in parents.items():
        split = splits.get(folders[0], '') if folders else ''
        below = folders[1:] if split else folders
        if split and inner[folders[0]] == {folders[0]}:
            below = below[1:]  # archives may have train/train/CLASS
        image = ListedImage(path, files.image_root, split=split, file=path)
        if below:
            _reject_inner_splits(below, path)
            image.label = below[0]
            if len(below) > 1:
                files.account.note(
                    Kind.NOTICE, 'images in folders inside class folders, '
                    "with the outer folder's class", path)
            images.append(image)
            classes[split, image.label].append((below[1:], path))
        else:
            files.account.skip(image, 'outside of class folders')
    for (_, label), paths in classes.items():
        _reject_masks(label, paths)
    _note_unread(files, inner)
    return ListedExport('Class folders', images)


def _note_unread(files: ExportFiles, folders: Collection[str]) -> None:
    """Count files that are not read, and outer folders without an image."""
    for ending, number in sorted(files.unread.items()):
        files.account.note(Kind.SKIPPED_FILE, f'of type {ending!r}, which are '
                           'not read as images', files.image_root, number)
    for name in sorted(os.listdir(files.image_root)):
        if (osp.isdir(osp.join(files.image_root, name)) and name not in folders
                and not split_named(name) and not is_skipped(name)):
            files.account.note(Kind.SKIPPED_CLASS, 'without an image', name)


def _inner_folders(parents: Iterable[Sequence[str]]) -> dict[str, set[str]]:
    """Map each outer folder to those in it; '' stands for its images."""
    inner = defaultdict(set)
    for folders in parents:
        if folders:
            inner[folders[0]].add(folders[1] if len(folders) > 1 else '')
    return inner


def _reject_splits(names: Collection[str], root: str) -> None:
    """Raise UserError if one of several class folders may be a split."""
    for name in names:
        others = sorted(set(names) - {name})
        if others and _SPLIT_NAME.fullmatch(name):
            raise UserError(
                f"'{osp.join(root, name)}' is a split or a class, like "
                f'{others[:5]}: put class folders into those of splits '
                '(train/CLASS), or rename it')


def _reject_inner_splits(folders: Sequence[str], path: str) -> None:
    """Raise UserError if a folder inside a class folder is a split."""
    for name in folders[1:]:
        if _SPLIT_NAME.fullmatch(name):
            raise UserError(
                f"'{path}': folder {name!r} is a split inside "
                f'{folders[0]!r}, which is read as a class: move images to '
                f'{name}/CLASS, or give the folder that contains the splits')


def _reject_masks(label: str, paths: Sequence[tuple[list[str], str]]) -> None:
    """Raise UserError if a third of a class's images may be masks, or copies.

    Their names differ from an image's in the extension, the word "mask" or
    the like, or a folder of such a name.

    Args:
        label (str): The class.
        paths (Sequence[tuple[list[str], str]]): For each image, the folders
            inside the class folder, and the path.
    """
    photos = defaultdict(list)
    for folders, path in paths:
        place = [name for name in folders if not _INNER_FOLDER.fullmatch(name)]
        name = osp.splitext(osp.basename(path))[0]
        photos[(*place, _MASK_NAME.sub('', name))].append(path)
    if 3 * (len(paths) - len(photos)) >= len(paths):
        first, second, *_ = max(photos.values(), key=len)
        raise UserError(
            f"'{first}' and '{second}' share a name, as an image and its mask "
            f'do, and so do many images of class {label!r}: move masks and '
            'copies elsewhere')


def is_mask(path: str) -> bool:
    """Whether a listed path has a folder of masks, or a mask's name."""
    *folders, name = path.replace('\\', '/').split('/')
    stem = osp.splitext(name)[0]
    return bool(_MASK_NAME.search(stem)) or any(
        _MASK_FOLDER.fullmatch(folder) for folder in folders)
