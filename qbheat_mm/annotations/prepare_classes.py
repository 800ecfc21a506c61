# Copyright (c) QB-Heat MM authors. All rights reserved.
"""From labeled images to folders and a config that train a classifier."""
import os
import os.path as osp
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from ..errors import UserError
from .account import Account, Kind
from .class_folders import read_class_folders
from .class_lists import read_class_list
from .cleaning import note_similar_names
from .configs import write_classes_config
from .files import ExportFiles, composed, is_below
from .images import match_files, open_images
from .lookup import ImageLookup
from .output_folder import drafted, require_new
from .records import ListedImage
from .report import Preparation, tabulate_classes, title
from .split import assign_splits

_SEPARATOR = re.compile(r'\S[\s,;|+]+\S')


def prepare_classes(source: str, out: str, *, images: str | None = None,
                    val: float = 0.2, seed: int = 0, copy: bool = False
                    ) -> Preparation:
    """Prepare labeled images for training a classifier.

    Links the images as ``out/{train,val,test}/CLASS/...`` and writes a
    config. Each image is of the class and in the split that the source
    states; or the report counts why it is not.

    Args:
        source (str): A folder of class folders, perhaps below folders of
            splits, or a list of images and their classes: a CSV file or lines
            ``PATH LABEL``.
        out (str): Folder to write to.
        images (str, optional): Folder of the images of a list, if it is
            another one.
        val (float): Share of images for validation, if there is no split.
        seed (int): Seed of this split.
        copy (bool): Whether to copy the images instead of linking them.

    Returns:
        Preparation: The config, ``out/classes.py``, and the report.

    Raises:
        UserError: If the source can be read in two ways, has fewer than two
            classes or some that the training split lacks, a class is too
            small to be split, or ``out`` is in a folder to read.
    """
    require_new(out, ('classes.py', 'train', 'val', 'test'))
    account = Account()
    files = ExportFiles(source, images, account)
    if images or not files.only:
        _require_outside(out, files.image_root)
    lookup = ImageLookup(files)
    if files.only:
        export = read_class_list(files.only, lookup)
    else:
        export = read_class_folders(files)
    for image in export.images:
        image.label = composed(image.label)
    number = len(export.images)
    listed = open_images(match_files(export, lookup, account), account)
    classes = sorted({image.label for image in listed})
    trained = {image.label for image in listed
               if image.split in ('', 'train')}
    if len(classes) < 2 or len(trained) == 1:
        found = repr(trained.pop()) if trained else 'no class'
        raise UserError(
            f"'{source}' has training images of {found} only, and a "
            'classifier needs two classes: give the folder that contains the '
            'class folders, or a list of images and classes')
    _check_names(classes, source, account)
    note_similar_names(classes, account)
    _check_splits(listed, source, account)
    splits = {image.split or 'train' for image in listed}
    parts = assign_splits(listed, classes, val, seed, account)
    headline = title(export.format, number, classes, splits)
    with drafted(out) as draft:
        write_classes_config(Path(draft, 'classes.py'),
                             'test' if 'test' in parts else 'val')
        _place(parts, classes, draft, copy)
    return Preparation(osp.join(out, 'classes.py'), headline,
                       tabulate_classes(parts, classes, account), account)


def _check_names(classes: Sequence[str], source: str, account: Account
                 ) -> None:
    """Require names of folders; warn of names that may be several labels."""
    separated, joined = [], []
    for name in classes:
        if (name.startswith('.') or '/' in name or '\0' in name
                or len(name.encode()) > 255):
            raise UserError(f"'{source}': class {name!r} cannot be the name "
                            'of a folder, which training reads: rename it')
        if _SEPARATOR.search(name):
            separated.append(name)
        if _joins(name, classes):
            joined.append(name)
    if 2 * len(separated) > len(classes):
        joined = separated
    for name in joined:
        account.note(Kind.NOTICE, 'class names may be several labels, but '
                     'each image is of one class', name)


def _joins(name: str, classes: Sequence[str]) -> bool:
    """Whether a name is several other classes, with separators between."""
    for separator in ('[,;|+]', r'[\s,;|+]'):
        parts = set()
        for part in re.split(separator, name):
            parts.add(part.strip())
        parts.discard('')
        if len(parts) > 1 and parts.issubset(classes):
            return True
    return False


def _require_outside(out: str, folder: str) -> None:
    """Refuse to write where images are read, now and the next time."""
    target, root = osp.realpath(out), osp.realpath(folder)
    if target == root or is_below(target, root):
        raise UserError(f"--out '{out}' is in '{folder}', whose images are "
                        'read: choose a folder elsewhere')


def _check_splits(images: Sequence[ListedImage], source: str,
                  account: Account) -> None:
    """Require that val and test have classes of train; note missing ones.

    Empty folders are written for these, so training would not notice.
    """
    classes = defaultdict(set)
    for image in images:
        classes[image.split or 'train'].add(image.label)
    trained = sorted(classes.pop('train', ()))
    if not trained:
        return  # which is refused for another reason
    for split, found in sorted(classes.items()):
        unknown = sorted(found.difference(trained))
        if unknown:
            raise UserError(
                f"'{source}': {split} has the classes {sorted(found)[:8]}, "
                f'but train has {trained[:8]} and lacks {unknown[:8]}: give '
                'all splits the same classes, or move other images elsewhere')
        absent = sorted(set(trained) - found)
        if absent:
            account.note(Kind.NOTICE, f'classes have no images in {split}',
                         absent[0], len(absent))


def _place(parts: Mapping[str, Iterable[ListedImage]],
           classes: Iterable[str], out: str, copy: bool) -> None:
    """Link or copy images into folders; number equal names.

    All splits have the folders of all classes, so that labels agree.
    """
    taken = Counter()
    for split, images in parts.items():
        for name in classes:
            Path(out, split, name).mkdir(parents=True, exist_ok=True)
        for image in images:
            folder = Path(out, split, image.label)
            stem, extension = osp.splitext(osp.basename(image.file))
            target = folder / f'{stem}{extension}'
            while osp.lexists(target):
                taken[folder, stem] += 1
                number = taken[folder, stem] + 1
                target = folder / f'{stem}_{number}{extension}'
            if copy:
                shutil.copyfile(image.file, target)
            else:
                os.symlink(image.file, target)
