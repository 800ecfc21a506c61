# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Read YOLO's label files, also of oriented boxes, segments and poses.

A label file belongs to the image of the same name, without extension, in the
same folder or in ``images`` instead of ``labels``. Lists and folders in the
YAML file give the splits, else lists beside it, else the folders of the
images. Only Label Studio's label files may have a hash in front of the name.
"""
import os.path as osp
from collections import defaultdict
from collections.abc import Iterable, Mapping

from ..errors import UserError
from .account import Kind
from .files import ExportFiles, is_below, normalized, split_named
from .lookup import ImageLookup, strip_hash
from .records import ListedExport, ListedImage
from .yolo_boxes import (
    are_boxes,
    read_boxes,
    reject_ids_from_1,
    reject_poses,
)
from .yolo_classes import Classes, yaml_beside

_FOLDERS = ('images', 'jpegimages', 'labels')


def read_yolo(contents: Mapping[str, Classes], lookup: ImageLookup
              ) -> ListedExport:
    """Read an export."""
    (path, classes), = contents.items()
    files, account = lookup.files, lookup.files.account
    labels = _LabelFiles(files, classes.by_label_studio)
    images = _listed_images(path, classes.settings, lookup)
    images = images or _labeled_folders(path, labels, files)
    poses = 'kpt_shape' in classes.settings
    for image in images:
        labels.reserve(image.file or _beside(image))
    for image in images:
        image.listed_size = (1, 1)
        text = labels.of(image.file or _beside(image))
        if text:
            image.boxes = list(read_boxes(text, classes.names, poses, files))
        else:
            account.note(Kind.UNLABELED, 'have no objects', image.name)
    labels.require_any(path)
    labels.require_one_image(images)
    reject_ids_from_1(images, classes.names, path)
    if not poses:
        reject_poses(images, path)
    labels.count_unused()
    by_cvat = osp.basename(path) == 'obj.names'
    return ListedExport(f'YOLO with {osp.basename(path)}', images,
                        list(classes.names.values()),
                        upright=by_cvat or classes.by_label_studio)


class _LabelFiles:
    """The label files of an export, by the images that they belong to."""

    def __init__(self, files: ExportFiles, hashed_names: bool) -> None:
        self.files = files
        self._found = {}
        self._reserved = set()
        self._by_key = {}
        self._texts = files.find_texts()
        for text in self._texts:
            key = self._key(text)
            if key not in self._by_key or '/labels/' in text:
                self._by_key[key] = text
        # Names may differ in case, or by a hash, if no image has the name.
        self._similar = defaultdict(list)
        self._owned = set()
        for image in files.images:
            self._owned.add(self._key(image))
        for key, text in self._by_key.items():
            if key not in self._owned:
                folder, stem = osp.split(normalized(key))
                short = strip_hash(stem) if hashed_names else stem
                for name in {stem, short}:
                    self._similar[osp.join(folder, name)].append(text)

    def reserve(self, image: str) -> None:
        """Keep the file of exactly this name from images named alike."""
        key = self._key(image)
        while key and key not in self._by_key:
            key = key.partition('/')[2]
        self._reserved.add(self._by_key.get(key, ''))

    def of(self, image: str) -> str:
        """The label file of an image, or ''."""
        if image not in self._found:
            self._found[image] = self._find(image)
        return self._found[image]

    def _find(self, image: str) -> str:
        key = self._key(image)
        text = self._by_key.get(key, '')
        similar = [other for other in self._similar[normalized(key)]
                   if other not in self._reserved]
        exact = [other for other in similar
                 if other.endswith(f'{osp.basename(key)}.txt')]
        if not text and len(exact or similar) == 1:
            text, = exact or similar
            self.files.account.correct(
                'image names that differ from the files',
                f'{text} is of {image}')
        return text

    def require_any(self, path: str) -> None:
        """Raise UserError if no image of this list of classes has a file."""
        if not any(self._found.values()):
            self.count_unused()
            account = self.files.account
            reasons = f' ({account})' if account else ''
            raise UserError(
                f"no image of '{path}' has a label file in "
                f"'{self.files.image_root}'{reasons}: give the data set's "
                'folder with --images')

    def require_one_image(self, images: Iterable[ListedImage]) -> None:
        """Raise UserError if a label file is of two images."""
        owners = {}
        for image in images:
            text = self.of(image.file)
            other = owners.setdefault(text, image.file)
            if image.file and text and other != image.file:
                raise UserError(f"'{text}' belongs to both '{other}' and "
                                f"'{image.file}': move the wrong image away")

    def root(self, text: str) -> str:
        """The folder around 'labels' and splits; '.' if images lie there."""
        folders = self.files.below(text)[:-1]
        lower = [folder.casefold() for folder in folders]
        if 'labels' not in lower:
            return '.'
        above = folders[:lower.index('labels')]
        while above and split_named(above[-1]):
            above.pop()
        return '/'.join(above)

    def count_unused(self) -> None:
        """Count the boxes of the other label files."""
        for text in sorted({*self._texts}.difference(self._found.values())):
            lines = self.files.lines(text)
            if are_boxes(lines):
                unlisted = self._key(text) in self._owned
                reason = 'of label files without an image'
                if unlisted:
                    reason = 'of label files whose image is in no list'
                self.files.account.note(Kind.SKIPPED_BOX, reason, text,
                                        len(lines))

    def _key(self, path: str) -> str:
        """Name an image and its label file alike."""
        kept = []
        *folders, name = self.files.below(path)
        for folder in folders:
            if folder.casefold() not in _FOLDERS:
                kept.append(folder)
        return '/'.join([*kept, osp.splitext(name)[0]])


def _labeled_folders(path: str, labels: _LabelFiles,
                     files: ExportFiles) -> list[ListedImage]:
    """List the images of folders with a label file; others hold drawings.

    Raises:
        UserError: If label files are in several places, of which some may be
            predictions.
    """
    folders, images, roots = set(), [], {}
    for file in files.images:
        text = labels.of(file)
        if text:
            folders.add(osp.dirname(file))
            roots.setdefault(labels.root(text), osp.dirname(text))
    if len(roots) > 1:
        places = ', '.join(repr(place) for place in roots.values())
        raise UserError(
            f'label files are in {places}, and some may be predictions: name '
            "the folders of images to use as 'train' (and 'val') in "
            f"'{yaml_beside(path)}', or move the others away")
    for file in files.images:
        if osp.dirname(file) in folders:
            images.append(ListedImage(
                file, path, split=files.split_of_image(file), file=file))
    return images


def _beside(image: ListedImage) -> str:
    """The path of a missing image, as written in its list."""
    return osp.normpath(osp.join(osp.dirname(image.source), image.name))


def _split_places(path: str, settings: Mapping, lookup: ImageLookup
                  ) -> dict[str, str | list[str]]:
    """The folders and lists that settings name by split, or lists beside."""
    places, named = {}, set()
    for key in ('train', 'val', 'valid', 'test'):
        if settings.get(key):
            places[key] = settings[key]
            named.add(split_named(key))
    for text in lookup.files.find_texts():
        split = split_named(osp.basename(text))
        beside = osp.dirname(text) in (osp.dirname(path), lookup.files.root)
        if (split and split not in named and beside
                and _lists_images(text, lookup)):
            places.setdefault(split, []).append(text)
    return places


def _lists_images(text: str, lookup: ImageLookup) -> bool:
    """Whether a text names an image; label files may be named like splits."""
    lines = lookup.files.lines(text)
    if not are_boxes(lines):
        for line in lines:
            if lookup.candidates(line, text):
                return True
    return False


def _listed_images(path: str, settings: Mapping, lookup: ImageLookup
                   ) -> list[ListedImage]:
    """List the images of the folders and lists of each split."""
    images, account = [], lookup.files.account
    for key, values in _split_places(path, settings, lookup).items():
        if not isinstance(values, list):
            values = [values]
        for value in values:
            value = str(value).replace('\\', '/')
            place, names = _find_place(path, settings, value, lookup.files)
            if not names:
                account.correct(
                    'splits that do not exist here', f'{key}: {value}')
            for name in names:
                images.append(ListedImage(name, place,
                                          split=split_named(key)))
    lookup.find(images)
    return images


def _find_place(path: str, settings: Mapping, value: str, files: ExportFiles
                ) -> tuple[str, list[str]]:
    """The first place that holds images of the export, and their names.

    The place may be relative to elsewhere: tails of its path are tried.
    """
    folder = osp.dirname(path)
    places = [osp.join(folder, str(settings.get('path') or ''), value)]
    parts = osp.normpath(value).split('/')
    for i in range(len(parts)):
        for root in (folder, files.image_root):
            places.append(osp.join(root, *parts[i:]))
    for place in places:
        place = osp.normpath(place)
        if osp.isfile(place):
            return place, files.lines(place)
        names = []
        for image in files.images:
            if is_below(image, place):
                names.append(image)
        if names:
            return osp.join(place, ''), names
    return '', []
