# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Load an image, or say which one cannot be loaded."""
import logging
from collections.abc import Callable

import numpy as np
from mmcv.image.io import imread_flags, supported_backends
from mmcv.transforms import LoadImageFromFile
from mmengine.logging import print_log
from mmengine.registry import TRANSFORMS as MMENGINE_TRANSFORMS

from ...arguments import BOOL, checked, one_of
from ...errors import UserError
from ...registry import TRANSFORMS
from ..declared_size import check_declared_size
from ..image_file import (
    ImageProblem,
    ScanDamage,
    decode,
    is_nearly_black,
    read_file,
)
from ..undecoded import UndecodedImage, shape_of

_WAY_OUT = ('copy it again, delete it, or skip such files in training with '
            'ignore_empty=True in this transform of the pipeline')
_ACCEPT = ", or take them as they decode with ignore_empty='damage'"
_NEARLY_BLACK = (
    'image {file!r} has 16 bits a colour, of which the upper 8 are taken, and '
    'is nearly black ({most} of 255 at most), as others of its kind may be: '
    'write such files with 8 bits, or scaled to all 16')
# So many files in a row are no accident.
_MAX_IGNORED = 100


class _Undecoded(dict):
    """Results whose picture only our ``RandomResizedCrop`` can take."""

    def __missing__(self, key: str) -> None:
        if key == 'img' and 'undecoded' in self:
            raise UserError(
                "LoadImageFromFile with deferred=True decodes in qbheat_mm's "
                'RandomResizedCrop, which must be the next transform of the '
                'pipeline: put it there, or write deferred=False')
        raise KeyError(key)


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
        deferred (bool): Whether to leave decoding to the next transform of
            the pipeline, which must be ours of the name
            ``RandomResizedCrop``: it may need no more than a half or a
            quarter of a JPEG file's resolution. Other formats, and pictures
            that are turned, are decoded at once. Defaults to False.
        **kwargs: As in mmcv: ``backend_args``.
    """

    @checked(
        to_float32=BOOL,
        color_type=one_of(None, *imread_flags),
        imdecode_backend=one_of(None, *supported_backends),
        ignore_empty=one_of(False, True, 'damage'),
        deferred=BOOL)
    def __init__(self,
                 to_float32: bool = False,
                 color_type: str | None = None,
                 imdecode_backend: str | None = 'cv2',
                 ignore_empty: bool | str = False,
                 deferred: bool = False,
                 **kwargs) -> None:
        super().__init__(
            to_float32=to_float32, color_type=color_type or 'color',
            imdecode_backend=imdecode_backend, **kwargs)
        self.ignore_empty = ignore_empty
        self.is_sure = color_type is not None
        self.deferred = deferred and not to_float32
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
            ``color_type`` says otherwise, or ``undecoded`` in its place, an
            ``UndecodedImage``; ``img_shape`` and ``ori_shape``, (H, W). None
            for an unreadable file that is ignored.

        Raises:
            UserError: If the file is missing, cut, damaged or no image, or
                not the picture that the annotation file declares.
        """
        if results.get('img') is None:
            found = self._guard(results['img_path'],
                                lambda: self._load(results))
            if found is None:
                return None
            if isinstance(found, UndecodedImage):
                return _Undecoded(
                    results, undecoded=found, img_shape=found.shape[:2],
                    ori_shape=found.shape[:2])
            results['img'] = found
        image = results['img']
        results['img'] = image.astype(np.float32) if self.to_float32 else image
        results['img_shape'] = results['ori_shape'] = image.shape[:2]
        return results

    def _guard(self, path: str, load: Callable) -> object | None:
        """What a function finds in a file; None if the file is passed over."""
        try:
            found = load()
        except ImageProblem as problem:
            self._ignore(path, problem)
            return None
        self._ignored_in_a_row = 0
        return found

    def _load(self, results: dict) -> np.ndarray | UndecodedImage:
        """Read, decode and compare one file."""
        path = results['img_path']
        content = read_file(path, self.backend_args)
        if self.deferred and 'height' not in results:
            shape = shape_of(content, self.color_type, self.imdecode_backend)
            if shape:
                return UndecodedImage(
                    content, shape, lambda reduction: self._guard(
                        path, lambda: self._decode(path, content, reduction)))
        image = self._decode(path, content)
        doubt = check_declared_size(results, image, content)
        if doubt and not self.is_sure:
            self._warn(path, f'image {str(path)!r} {doubt}')
        return image

    def _decode(self, path: str, content: bytes,
                reduction: int = 1) -> np.ndarray:
        """Decode, and warn of damage where it is taken."""
        try:
            image = decode(content, self.color_type, self.imdecode_backend,
                           reduction)
        except ScanDamage as damage:
            if self.ignore_empty != 'damage':
                raise
            self._warn(path, f'image {str(path)!r} {damage}')
            return damage.image
        if is_nearly_black(content, image):
            self._warn('16 bits', _NEARLY_BLACK.format(
                file=str(path), most=image.max()))
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

    def _warn(self, key: str, line: str) -> None:
        """Log a file once, not in every epoch."""
        if key not in self._told:
            self._told.add(key)
            print_log(line, logger='current', level=logging.WARNING)
