# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Load an image, or say which one cannot be loaded."""
import logging

import numpy as np
from mmcv.image.io import imread_flags, supported_backends
from mmcv.transforms import LoadImageFromFile
from mmengine.logging import print_log
from mmengine.registry import TRANSFORMS as MMENGINE_TRANSFORMS

from ...arguments import BOOL, checked, one_of
from ...errors import UserError
from ...registry import TRANSFORMS
from ..declared_size import check_declared_size
from ..image_file import ImageProblem, ScanDamage, decode, read_file

_WAY_OUT = ('copy it again, delete it, or skip such files in training with '
            'ignore_empty=True in this transform of the pipeline')
_ACCEPT = ", or take them as they decode with ignore_empty='damage'"
# So many files in a row are no accident.
_MAX_IGNORED = 100


@TRANSFORMS.register_module(name='LoadImageFromFile')
@MMENGINE_TRANSFORMS.register_module()
class LoadNamedImageFromFile(LoadImageFromFile):
    """mmcv's ``LoadImageFromFile`` that names a file which it cannot load.

    It also finds files that are cut or damaged, which decoders complete with
    grey areas or with noise. In the configurations it is
    ``dict(type='LoadImageFromFile', _scope_='qbheat_mm')``: mmdet's and
    mmpretrain's inferencers look for that name.

    Args:
        to_float32 (bool): As in mmcv. Defaults to False.
        imdecode_backend (str, optional): As in mmcv. Defaults to 'cv2'.
        ignore_empty (bool | str): Whether to log such a file as a warning and
            let the data set take another sample, instead of stopping. That
            works in training; a test set needs every image. ``'damage'``
            stops as False does, but takes a JPEG file whose data are damaged
            as it decodes, with a warning. Defaults to False.
        color_type (str, optional): As in mmcv. The picture is turned as its
            EXIF orientation says, unless this is
            ``'color_ignore_orientation'``. By default, and only then, a
            picture to which boxes may belong either way is named in a
            warning, see docs/own_data.md.
        **kwargs: As in mmcv: ``backend_args``.
    """

    @checked(
        to_float32=BOOL,
        color_type=one_of(None, *imread_flags),
        imdecode_backend=one_of(None, *supported_backends),
        ignore_empty=one_of(False, True, 'damage'))
    def __init__(self,
                 to_float32: bool = False,
                 color_type: str | None = None,
                 imdecode_backend: str | None = 'cv2',
                 ignore_empty: bool | str = False,
                 **kwargs) -> None:
        super().__init__(
            to_float32=to_float32, color_type=color_type or 'color',
            imdecode_backend=imdecode_backend, **kwargs)
        self.ignore_empty = ignore_empty
        self.is_sure = color_type is not None
        self._told = set()
        self._ignored_in_a_row = 0

    def transform(self, results: dict) -> dict | None:
        """Load the image.

        Args:
            results (dict): With ``img_path``; detection data sets add the
                ``height`` and ``width`` that the annotation file declares.
                With ``img`` it is loaded already, as by an inferencer.

        Returns:
            dict | None: With ``img``, (H, W, 3) uint8, BGR unless
            ``color_type`` says otherwise, ``img_shape`` and ``ori_shape``,
            (H, W). None for an unreadable file that is ignored.

        Raises:
            UserError: If the file is missing, cut, damaged or no image, or
                not the picture that the annotation file declares.
        """
        if results.get('img') is None:
            try:
                results['img'] = self._load(results)
            except ImageProblem as problem:
                return self._ignore(results['img_path'], problem)
        image = results['img']
        self._ignored_in_a_row = 0
        results['img'] = image.astype(np.float32) if self.to_float32 else image
        results['img_shape'] = results['ori_shape'] = image.shape[:2]
        return results

    def _load(self, results: dict) -> np.ndarray:
        """Read, decode and compare one file."""
        path = results['img_path']
        content = read_file(path, self.backend_args)
        try:
            image = decode(content, self.color_type, self.imdecode_backend)
        except ScanDamage as damage:
            if self.ignore_empty != 'damage':
                raise
            self._warn(path, f'image {str(path)!r} {damage}')
            image = damage.image
        doubt = check_declared_size(results, image, content)
        if doubt and not self.is_sure:
            self._warn(path, f'image {str(path)!r} {doubt}')
        return image

    def _ignore(self, path: str, problem: ImageProblem) -> None:
        """Warn of a file where that is wanted, else stop."""
        line = f'image {str(path)!r} {problem}'
        if self.ignore_empty is not True:
            way_out = getattr(problem, 'way_out', _WAY_OUT)
            if isinstance(problem, ScanDamage):
                way_out += _ACCEPT
            raise UserError(f'{line}: {way_out}') from problem
        self._ignored_in_a_row += 1
        if self._ignored_in_a_row >= _MAX_IGNORED:
            raise UserError(
                f'ignore_empty=True skips bad images, but {_MAX_IGNORED} in '
                f'a row were bad; the last is: {line}') from problem
        self._warn(path, line)

    def _warn(self, path: str, line: str) -> None:
        """Log a file once, not in every epoch."""
        if path not in self._told:
            self._told.add(path)
            print_log(line, logger='current', level=logging.WARNING)
