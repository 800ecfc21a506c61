# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Find the images of folders, as paths and as data sets."""
import logging
import math
import os
import os.path as osp
from collections.abc import Sequence

from mmengine.fileio import get_file_backend, list_from_file
from mmengine.logging import print_log
from mmpretrain.datasets import CustomDataset, ImageNet
from mmpretrain.registry import DATASETS

from ..errors import UserError
from .folders import FolderScan, new_folders, scan_folder
from .images import EXTENSIONS, is_local


def _report(folder: str, images: Sequence, scan: FolderScan) -> None:
    """Warn of other files; raise if there are no images."""
    found = []
    for name, number in scan.skipped.items():
        found.append(f"{number} images in folders '{name}'")
    for extension, number in scan.others.most_common(5):
        found.append(f'{number} {extension}')
    kinds = ', '.join(found) or 'nothing'
    if not images:
        raise UserError(f'image folder {folder!r} holds no image: found '
                        f'{kinds}')
    if found:
        print_log(f'image folder {folder!r}: {len(images)} images; not read: '
                  f'{kinds}', logger='current', level=logging.WARNING)


@DATASETS.register_module()
class NamedImageFolder(CustomDataset):
    """``CustomDataset`` that never drops files or mixes up classes silently.

    Given classes must be the names of the folders, in the order of the
    labels; without them folders are sorted. Files that are not images are
    counted in a warning.

    Args:
        *args: See ``CustomDataset``.
        extensions (Sequence[str]): Extensions of images. Defaults to all
            formats that can be decoded.
        **kwargs: See ``CustomDataset``.
    """
    #: Whether folders are named like the classes.
    named_by_class = True

    def __init__(self, *args, extensions: Sequence[str] = EXTENSIONS,
                 **kwargs) -> None:
        super().__init__(*args, extensions=extensions, **kwargs)

    def load_data_list(self) -> list[dict]:
        """List the images, from the annotation file if there is one.

        Raises:
            UserError: If there are no images, a line is malformed, or labels
                or folders don't match the classes.
        """
        samples = self._read_list() if self.ann_file else self._find_samples()
        join = get_file_backend(self.img_prefix).join_path
        if self.with_label:
            return [dict(img_path=join(self.img_prefix, path), gt_label=label)
                    for path, label in samples]
        return [dict(img_path=join(self.img_prefix, path))
                for path in samples]

    def _read_list(self) -> list:
        """Read paths, or pairs of path and label, from the annotations."""
        try:
            lines = list_from_file(self.ann_file, encoding='utf-8-sig')
        except UnicodeDecodeError as error:
            raise UserError(f'annotation file {self.ann_file!r} is not '
                            f'UTF-8: {error}') from error
        samples = [line for line in lines if line.strip()]
        if not samples:
            raise UserError(f'annotation file {self.ann_file!r} is empty')
        if self.with_label:
            samples = [self._pair(line) for line in samples]
        return samples

    def _pair(self, line: str) -> tuple[str, int]:
        """Split a line into path and label."""
        path, _, label = line.strip().rpartition(' ')
        most = len(self.CLASSES or ()) or math.inf
        if not path or not label.isdecimal() or int(label) >= most:
            raise UserError(
                f'annotation file {self.ann_file!r}: line {line[:60]!r} is '
                'not PATH LABEL, with LABEL from 0 to the number of classes '
                '- 1')
        return path, int(label)

    def _find_samples(self) -> list:
        """Find paths, or pairs of path and label, in the folder."""
        root = self.img_prefix
        if not is_local(root):
            return super()._find_samples()
        scan = scan_folder(root, self.extensions)
        samples = self._label(scan) if self.with_label else scan.files
        _report(root, samples, scan)
        return samples

    def _label(self, scan: FolderScan) -> list[tuple[str, int]]:
        """Pair images with the indices of their classes."""
        names = self._class_folders()
        self.folder_to_idx = {name: i for i, name in enumerate(names)}
        pairs, used = [], set()
        for path in scan.files:
            folder, separator, _ = path.partition(os.sep)
            if separator:
                used.add(folder)
                pairs.append((path, self.folder_to_idx[folder]))
        if len(scan.files) > len(pairs):
            scan.others['images outside of class folders'] = (
                len(scan.files) - len(pairs))
        if len(names) > len(used):
            scan.others['empty class folders'] = len(names) - len(used)
        return pairs

    def _class_folders(self) -> list[str]:
        """Return the class folders in the order of the labels."""
        root, folders, files = next(os.walk(self.img_prefix))
        images = [name for name in files
                  if name.lower().endswith(tuple(self.extensions))]
        folders = sorted(new_folders(root, folders, {osp.realpath(root)},
                                     images))
        if self.CLASSES is None:
            self._metainfo['classes'] = tuple(folders)
        elif sorted(self.CLASSES) == folders:
            return list(self.CLASSES)
        elif self.named_by_class or len(self.CLASSES) != len(folders):
            raise UserError(
                f'image folder {self.img_prefix!r} has {len(folders)} class '
                f'folders, {folders[:8]}, but metainfo.classes are '
                f'{list(self.CLASSES)[:8]} ({len(self.CLASSES)}): correct '
                'one of them')
        return folders


@DATASETS.register_module()
class NamedImageNet(NamedImageFolder, ImageNet):
    """mmpretrain's ``ImageNet`` that counts other files in a warning."""
    named_by_class = False  # n01440764 is 'tench'


def find_images(paths: Sequence[str]) -> list[str]:
    """List image files, also those in folders and subfolders.

    Args:
        paths (Sequence[str]): Files and folders.

    Returns:
        list[str]: Files as given, those of a folder sorted.

    Raises:
        UserError: If a path does not exist or a folder has no images.
    """
    files = []
    for path in paths:
        if not osp.exists(path):
            raise UserError(f'image {path!r} does not exist (in '
                            f'{os.getcwd()!r})')
        if not osp.isdir(path):
            files.append(path)
            continue
        scan = scan_folder(path)
        _report(path, scan.files, scan)
        files += [osp.join(path, name) for name in scan.files]
    return files
