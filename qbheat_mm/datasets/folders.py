# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Image folders of which no file is left out silently."""
import os.path as osp
from collections import Counter
from collections.abc import Sequence

from mmengine.fileio import get_file_backend, list_from_file
from mmpretrain.datasets import CustomDataset, ImageNet
from mmpretrain.registry import DATASETS

from ..errors import UserError
from .image_folder import EXTENSIONS, Folder


class _NamedFolder:
    """What :class:`NamedImageFolder` and :class:`NamedImageNet` share."""
    #: Whether folders bear the names of their classes.
    named_by_class = True

    def __init__(self, *args, extensions: str | Sequence[str] = EXTENSIONS,
                 **kwargs) -> None:
        if isinstance(extensions, str):  # not a list of letters
            extensions = [extensions]
        super().__init__(*args, extensions=tuple(extensions), **kwargs)

    def load_data_list(self) -> list[dict]:
        """List the images, from the annotation file if there is one.

        Raises:
            UserError: If there is no image, a line is malformed, or classes
                don't match.
        """
        samples = self._read_list() if self.ann_file else self._find_samples()
        join = get_file_backend(self.img_prefix).join_path
        if not self.with_label:
            return [dict(img_path=join(self.img_prefix, path))
                    for path in samples]
        labels = [label for _, label in samples]
        if self.CLASSES and max(labels) >= len(self.CLASSES):
            raise UserError(
                f'annotation file {self.ann_file!r} has labels up to '
                f'{max(labels)}, but the dataset has {len(self.CLASSES)} '
                'classes; the first label is 0')
        return [dict(img_path=join(self.img_prefix, path), gt_label=label)
                for path, label in samples]

    def _read_list(self) -> list:
        """Paths, with labels pairs, from the lines of a file."""
        what = 'PATH LABEL' if self.with_label else 'PATH'
        try:
            lines = list_from_file(self.ann_file, encoding='utf-8-sig')
        except UnicodeDecodeError as error:
            raise UserError(f'annotation file {self.ann_file!r} is not '
                            f'UTF-8: {error}') from error
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
                    f'annotation file {self.ann_file!r}, line {number}: '
                    f'{line[:60]!r} is not {what}, LABEL a number from 0')
            samples.append((path, int(label)))
        if not samples:
            raise UserError(f'annotation file {self.ann_file!r} is empty: '
                            f'write a line {what} for each image')
        return samples

    def _find_samples(self) -> list:
        """Paths, with labels pairs, of the images in the folder."""
        root = self.img_prefix
        if '://' in root:
            return super()._find_samples()
        if not osp.isdir(root):
            raise UserError(f'image folder {root!r} does not exist: correct '
                            'data_root and data_prefix')
        folder = Folder(root, self.extensions)
        found = self._label(folder) if self.with_label else folder.images
        if not found:
            raise UserError(
                f'image folder {root!r} holds no image: found '
                f'{folder.describe_others()}; images end with '
                f'{", ".join(sorted(self.extensions))}')
        folder.warn_of_others()
        return found

    def _label(self, folder: Folder) -> list[tuple[str, int]]:
        """Images with the index of the class whose folder holds them."""
        classes = self._match_classes(folder)
        self.folder_to_idx = {name: i for i, name in enumerate(classes)}
        found = []
        for path in folder.images:
            name, _, file = path.partition('/')
            if file:
                found.append((path, self.folder_to_idx[name]))
        if outside := len(folder.images) - len(found):
            folder.others['images outside of class folders'] = outside
        if empty := set(classes) - {path.split('/')[0] for path, _ in found}:
            folder.others[f'empty class folders ({min(empty)} ...)'] = len(
                empty)
        return found

    def _match_classes(self, folder: Folder) -> list[str]:
        """The class folders in the order of the labels."""
        if self.CLASSES is None:
            self._metainfo['classes'] = tuple(folder.classes)
        elif Counter(self.CLASSES) == Counter(folder.classes):
            return list(self.CLASSES)
        elif self.named_by_class or len(self.CLASSES) != len(folder.classes):
            raise UserError(
                f'image folder {folder.path!r} has the class folders '
                f'{_few(folder.classes)}, but metainfo.classes are '
                f'{_few(self.CLASSES)}: correct one of them')
        return folder.classes


def _few(names: Sequence[str]) -> str:
    return ', '.join(map(repr, names[:8])) + (
        f', ... ({len(names)})' if len(names) > 8 else '')


@DATASETS.register_module()
class NamedImageFolder(_NamedFolder, CustomDataset):
    """mmpretrain's ``CustomDataset``, which names what it leaves out.

    Given classes must be the names of the folders; labels follow their order,
    else the alphabet.

    Args:
        *args: Of ``CustomDataset``.
        extensions (str | Sequence[str]): Of images. Defaults to all formats
            that can be decoded.
        **kwargs: Of ``CustomDataset``.
    """


@DATASETS.register_module()
class NamedImageNet(_NamedFolder, ImageNet):
    """mmpretrain's ``ImageNet``, which names what it leaves out."""
    named_by_class = False  # n01440764 is 'tench'
