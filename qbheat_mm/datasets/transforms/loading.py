# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Load an image, or say which one cannot be loaded."""
import logging

import mmcv
import numpy as np
from mmcv.transforms import LoadImageFromFile
from mmengine import fileio
from mmengine.logging import print_log
from mmengine.registry import TRANSFORMS

from ...errors import UserError

_JPEG_START, _JPEG_SCAN, _JPEG_END = b'\xff\xd8', b'\xff\xda', b'\xff\xd9'


@TRANSFORMS.register_module()
class LoadNamedImageFromFile(LoadImageFromFile):
    """mmcv's ``LoadImageFromFile`` that names a file which it cannot load.

    It also finds JPEG files that have been cut, which older OpenCV (4.10 does,
    4.14 does not) decodes without an error to an image whose rest is grey.

    Args:
        ignore_empty (bool): Whether to log such a file as a warning and let
            the data set take another sample, instead of stopping. That works
            in training; a test set needs every image. Defaults to False.
        **kwargs: As in mmcv: ``to_float32``, ``color_type``,
            ``imdecode_backend``, ``backend_args``.
    """

    def transform(self, results: dict) -> dict | None:
        """Load the image.

        Args:
            results (dict): With ``img_path``.

        Returns:
            dict | None: With ``img``, (H, W, 3) uint8, BGR unless
            ``color_type`` says otherwise, ``img_shape`` and ``ori_shape``,
            (H, W). None for an unreadable file that is ignored.

        Raises:
            UserError: If the file is missing, cut or no image.
        """
        path = results['img_path']
        try:
            image = self._load(path)
        except UserError as error:
            if not self.ignore_empty:
                raise
            print_log(str(error), logger='current', level=logging.WARNING)
            return None
        results['img'] = image.astype(np.float32) if self.to_float32 else image
        results['img_shape'] = results['ori_shape'] = image.shape[:2]
        return results

    def _load(self, path: str) -> np.ndarray:
        """Read and decode one file."""
        try:
            content = fileio.get(path, backend_args=self.backend_args)
        except OSError as error:
            raise UserError(
                f"image '{path}' cannot be read ({error.strerror or error}): "
                'the annotations or the data_prefix name a file that is not '
                'there') from error
        if is_cut(content):
            raise self._unreadable(path, 'cut')
        try:
            image = mmcv.imfrombytes(
                content, flag=self.color_type, backend=self.imdecode_backend)
        except Exception as error:
            # Each decoder has errors of its own; the cause stays attached.
            raise self._unreadable(path, 'no image') from error
        if image is None:
            raise self._unreadable(path, 'no image')
        return image

    @staticmethod
    def _unreadable(path: str, what: str) -> UserError:
        return UserError(
            f"image '{path}' is {what}: copy it again, delete it, or skip "
            'such files in training with ignore_empty=True in this '
            'transform of the pipeline')


def is_cut(content: bytes) -> bool:
    """Whether a JPEG file ends before its end mark.

    Args:
        content (bytes): The whole file. Bytes after the mark, which some
            cameras add, do no harm.

    Returns:
        bool: False also for every other format.
    """
    # A thumbnail in the header has marks too, before the last scan.
    return content.startswith(_JPEG_START) and (
        content.rfind(_JPEG_END) < content.rfind(_JPEG_SCAN))
