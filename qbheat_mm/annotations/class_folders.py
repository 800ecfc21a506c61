# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read images in folders of classes, perhaps below those of splits."""
import os
import os.path as osp

from ..datasets.images import EXTENSIONS
from .files import ExportFiles, split_named
from .records import Export, ListedImage


def read_class_folders(files: ExportFiles) -> Export:
    """Read CLASS/... or SPLIT/CLASS/...; a split has folders below it."""
    parents = {}
    for path in files.images:
        parents[path] = osp.relpath(path, files.image_root).split('/')[:-1]
    splits = {}
    for folders in parents.values():
        if len(folders) > 1:
            splits[folders[0]] = split_named(folders[0])
    images = []
    for path, folders in parents.items():
        split = splits.get(folders[0], '') if folders else ''
        below = folders[1:] if split else folders
        image = ListedImage(path, files.image_root, split=split, file=path)
        if below:
            image.label = below[0]
            images.append(image)
        else:
            files.account.leave_out(image, 'outside of class folders')
    for folder in ('', *(name for name, split in splits.items() if split)):
        _count_hidden(osp.join(files.image_root, folder), files)
    return Export('Class folders', images)


def _count_hidden(folder: str, files: ExportFiles) -> None:
    """Count images in hidden folders, which may be meant as classes."""
    for entry in os.scandir(folder):
        if entry.name.startswith('.') and entry.is_dir():
            for name in os.listdir(entry.path):
                if name.lower().endswith(EXTENSIONS):
                    files.account.note('files left out', 'in hidden folders',
                                       osp.join(entry.path, name))
