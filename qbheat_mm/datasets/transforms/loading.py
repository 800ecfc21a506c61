# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Load an image file, or name the file that cannot be loaded."""
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from mmcv.transforms import LoadImageFromFile
from mmengine.logging import print_log
from mmengine.registry import TRANSFORMS as MMENGINE_TRANSFORMS

from ...errors import UserError
from ...registry import TRANSFORMS
from ..images import DamagedImageError, ImageError, ImageFile

# So many files in a row are no accident.
_MAX_SKIPPED = 100
_STORED = 'color_ignore_orientation'


@TRANSFORMS.register_module(name='LoadImageFromFile')
@MMENGINE_TRANSFORMS.register_module()
class LoadNamedImageFromFile(LoadImageFromFile):
    """Load a color image; unreadable and damaged files are errors.

    Configs write ``dict(type='LoadImageFromFile', _scope_='qbheat_mm')``:
    mmdet's and mmpretrain's inferencers look for that name.

    Args:
        to_float32 (bool): Whether to convert to float32. Defaults to False.
        color_type (str, optional): ``'color'`` turns images as their EXIF
            orientation says, ``'color_ignore_orientation'`` does not. None
            is ``'color'``, with a warning where the orientation makes it
            uncertain to which of the two boxes belong. Defaults to None.
        ignore_empty (bool | str): True skips unreadable files with a warning
            and lets the dataset draw another image, in training only.
            ``'damage'`` takes damaged JPEG files as they decode, with a
            warning. Defaults to False.
        backend_args (dict, optional): Of mmengine's file backends. Defaults
            to None.
    """

    def __init__(self,
                 to_float32: bool = False,
                 color_type: str | None = None,
                 ignore_empty: bool | str = False,
                 backend_args: dict | None = None) -> None:
        if color_type not in (None, 'color', _STORED):
            raise UserError(f"color_type={color_type!r}: give 'color' or "
                            f'{_STORED!r}, or take mmcv.LoadImageFromFile')
        if ignore_empty not in (False, True, 'damage'):
            raise UserError(f'ignore_empty={ignore_empty!r} must be False, '
                            "True or 'damage'")
        super().__init__(
            to_float32=to_float32, color_type=color_type or 'color',
            backend_args=backend_args)
        self.ignore_empty = ignore_empty
        self.is_sure = color_type is not None
        self._warned = set()
        self._skipped_in_a_row = 0

    def transform(self, results: dict) -> dict | None:
        """Load the image.

        Args:
            results (dict): With ``img_path``, and with ``height`` and
                ``width`` where annotations declare them; or with ``img``
                from an inferencer.

        Returns:
            dict | None: With ``img``, (H, W, 3), BGR, ``img_shape`` and
            ``ori_shape``. None if the file is skipped.

        Raises:
            ImageError: If the file is unreadable, or its size is not the
                declared one.
        """
        image = results.get('img')
        if image is None:
            file = self.open(results)
            image = None if file is None else self.decode(file)
            if image is None:
                return None
        results['img'] = image.astype(np.float32) if self.to_float32 else image
        results['img_shape'] = results['ori_shape'] = image.shape[:2]
        return results

    def open(self, results: dict) -> ImageFile | None:
        """Read a file and check its size; None if it is skipped."""
        return self._or_skip(self._open, results)

    def decode(self, file: ImageFile, reduction: int = 1) -> np.ndarray | None:
        """Decode a file, (H, W, 3), BGR, uint8; None if it is skipped."""
        image = self._or_skip(self._decode, file, reduction)
        if image is not None:
            self._skipped_in_a_row = 0
        return image

    def _open(self, results: dict) -> ImageFile:
        file = ImageFile(results['img_path'], self.backend_args,
                         use_exif=self.color_type != _STORED)
        if 'height' in results:
            self._check_size(file, (results['height'], results['width']))
        return file

    def _check_size(self, file: ImageFile, declared: tuple[int, int]) -> None:
        """Find boxes that were drawn on another image, or before turning."""
        if declared != file.shape:
            raise ImageError(
                file.path, 'is {1} x {0} pixels, but the annotation file says '
                '{3} x {2}: correct it; or, if boxes belong to the pixels as '
                'stored, without the EXIF orientation, set color_type={4!r} '
                'when loading'.format(*file.shape, *declared, _STORED))
        is_turned = file.orientation > 1 and not self.is_sure
        if is_turned and (file.orientation < 5 or declared[0] == declared[1]):
            self._warn(
                f'image {str(file.path)!r} has EXIF orientation '
                f'{file.orientation} and is turned: boxes must be drawn on it '
                f"as viewers show it, or set color_type={_STORED!r}; 'color' "
                'silences this')

    def _decode(self, file: ImageFile, reduction: int) -> np.ndarray:
        try:
            return file.decode(reduction)
        except DamagedImageError as error:
            if self.ignore_empty != 'damage':
                raise
            self._warn(str(error))
            return file.decode(reduction, strict=False)

    def _or_skip(self, function: Callable, *args: Any) -> Any:
        try:
            return function(*args)
        except ImageError as error:
            if self.ignore_empty is not True:
                raise
            self._skipped_in_a_row += 1
            if self._skipped_in_a_row == _MAX_SKIPPED:
                raise UserError(f'{_MAX_SKIPPED} images in a row were '
                                f'skipped; the last: {error}') from error
            self._warn(f'skipped: {error}')
            return None

    def _warn(self, message: str) -> None:
        """Log once, not in every epoch."""
        if message not in self._warned:
            self._warned.add(message)
            print_log(message, logger='current', level=logging.WARNING)
