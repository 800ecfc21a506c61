# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Image folders of which no file is left out without a word."""
import os.path as osp
from collections import Counter
from collections.abc import Sequence

from mmengine.fileio import get_file_backend, list_from_file
from mmpretrain.datasets import CustomDataset, ImageNet
from mmpretrain.registry import DATASETS

from ..arguments import TEXT_OR_TEXTS, as_texts, checked, optional
from ..errors import UserError
from .extensions import Folder, image_endings


def _listed(names: Sequence[str]) -> str:
    return ', '.join(map(repr, names[:8])) + (
        f', ... ({len(names)})' if len(names) > 8 else '')


class _NamedFolder:
    """What :class:`NamedImageFolder` and :class:`NamedImageNet` share."""
    #: What names the folder, for messages.
    given_by = 'data_root and data_prefix of the data set'
    #: Whether a folder is called as its class, and not by a code for it.
    named_by_class = True

    @checked(extensions=optional(TEXT_OR_TEXTS))
    def __init__(self, *args, extensions=None, **kwargs) -> None:
        super().__init__(
            *args, extensions=as_texts(extensions or image_endings()),
            **kwargs)

    def load_data_list(self) -> list[dict]:
        """Read the list of images, from a file where one is given.

        Raises:
            UserError: If there is no image, or a line is no path and label.
        """
        samples = (self._read_list() if self.ann_file
                   else self._find_samples())
        join = get_file_backend(self.img_prefix).join_path
        data = [dict(img_path=join(self.img_prefix, sample[0]),
                     gt_label=sample[1]) if self.with_label
                else dict(img_path=join(self.img_prefix, sample))
                for sample in samples]
        labels = [info.get('gt_label', 0) for info in data]
        if self.CLASSES and not 0 <= min(labels) <= max(labels) < len(
                self.CLASSES):
            raise UserError(
                f'annotation file {self.ann_file!r} has labels from '
                f'{min(labels)} to {max(labels)}, but the data set has '
                f'{len(self.CLASSES)} classes, which begin with 0')
        return data

    def _read_list(self) -> list:
        """What the lines of a file say; empty ones are passed over.

        Returns:
            list: Paths; with labels, pairs with these.

        Raises:
            UserError: If it is not UTF-8, or a line is no path and label.
        """
        what = 'PATH LABEL' if self.with_label else 'PATH'
        try:
            lines = list_from_file(self.ann_file, encoding='utf-8-sig')
        except UnicodeDecodeError as error:
            raise UserError(
                f'annotation file {self.ann_file!r}: it is not UTF-8 '
                f'({error.reason} in byte {error.start}): save it so, a line '
                f'{what} for each image') from error
        samples = []
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            if not self.with_label:
                samples.append(line)
                continue
            path, _, label = line.strip().rpartition(' ')
            if not path or not label.isdecimal():
                raise UserError(
                    f'annotation file {self.ann_file!r}, line {number}, '
                    f'{line[:60]!r}: each of its lines must be {what}, LABEL '
                    'a number from 0')
            samples.append((path, int(label)))
        if not samples:
            raise UserError(f'annotation file {self.ann_file!r} is empty: '
                            f'write a line {what} for each image')
        return samples

    def _find_samples(self) -> list:
        """List the images; mmpretrain passes over the rest in silence.

        Returns:
            list: Paths below the folder; with labels, pairs with these.

        Raises:
            UserError: If there is no image, or are no folders of classes.
        """
        root = self.img_prefix
        if '://' in root:  # a storage that has its own way of listing
            return super()._find_samples()
        if not osp.isdir(root):
            raise UserError(f'image folder {root!r} does not exist or is no '
                            f'folder: correct {self.given_by}')
        folder = Folder(root, self.extensions)
        found = self._label(folder) if self.with_label else folder.images
        if found:
            folder.warn_of_others(len(found))
        if not found:
            there = folder.describe_others() or 'nothing'
            raise UserError(
                f'image folder {root!r} holds no image: found {there}; '
                f'images end with {", ".join(sorted(self.extensions))}: '
                f'correct {self.given_by}, or '
                'convert the files')
        return found

    def _label(self, folder: Folder) -> list[tuple[str, int]]:
        """Images with the index of the class whose folder holds them."""
        root = self.img_prefix
        classes = folder.classes
        if self.CLASSES is None:
            self._metainfo['classes'] = tuple(classes)
        elif Counter(self.CLASSES) == Counter(classes):
            classes = list(self.CLASSES)
        elif self.named_by_class:
            raise UserError(
                f'image folder {root!r} holds the folders of classes '
                f'{_listed(classes)}, but the classes of the data set are '
                f'{_listed(self.CLASSES)}: correct the folder (an empty one '
                'for a class without images), or metainfo=dict(classes=...), '
                'whose names are those of the folders')
        elif len(self.CLASSES) != len(classes):
            raise UserError(
                f'image folder {root!r} holds {len(classes)} folders of '
                f'classes, but the data set has {len(self.CLASSES)} classes: '
                'correct the folder, or metainfo=dict(classes=...) and the '
                "head's num_classes")
        self.folder_to_idx = {name: i for i, name in enumerate(classes)}
        found = []
        for path in folder.images:
            name, _, file = path.partition('/')
            if file:
                found.append((path, self.folder_to_idx[name]))
            else:
                folder.others['images outside of the folders of classes'] += 1
        empty = set(classes) - {path.partition('/')[0] for path, _ in found}
        if empty and found:
            folder.others[f'empty folders of classes ({min(empty)} ...)'] += (
                len(empty))
        return found


@DATASETS.register_module()
class NamedImageFolder(_NamedFolder, CustomDataset):
    """mmpretrain's ``CustomDataset`` that tells which files it leaves out.

    It also reads webp, tiff, gif and, where there is a decoder, avif and heic.
    Classes that are given must be those of the folders; labels then follow
    their order, and without them that of the alphabet.

    Args:
        *args: Of ``CustomDataset``.
        extensions (str | Sequence[str], optional): Endings of images; by
            default all that can be decoded.
        **kwargs: Of ``CustomDataset``.
    """


@DATASETS.register_module()
class NamedImageNet(_NamedFolder, ImageNet):
    """mmpretrain's ``ImageNet``, likewise."""
    named_by_class = False  # n01440764 is 'tench'
