# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Decode JPEG files where the model is, and cut the crops there."""
import functools
import logging
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch
from mmengine.logging import print_log
from mmengine.model import ImgDataPreprocessor
from mmengine.registry import MODELS
from torch import Tensor
from torchvision.transforms.v2 import functional as F

from ..errors import UserError
from .image_file import ImageProblem, ScanDamage, decode


@functools.cache
def jpeg_decoder() -> Callable[..., list[Tensor]]:
    """A function that decodes a list of JPEG files on a device.

    TorchCodec's where it is installed, for torchvision calls its own
    deprecated from 0.29 on.

    Returns:
        Callable: From a list of (N, ) uint8 tensors on the CPU, and
        ``device``, to a list of (3, H, W) uint8 tensors, RGB, there.

    Raises:
        ImportError: Neither has one.
    """
    try:
        from torchcodec.decoders import decode_jpeg
        return functools.partial(decode_jpeg, mode='RGB')
    except Exception:  # not installed, an old one, or without its libraries
        from torchvision.io import ImageReadMode, decode_jpeg
        return functools.partial(decode_jpeg, mode=ImageReadMode.RGB)


def why_not_on(device: str) -> str | None:
    """Why JPEG files cannot be decoded on a device; None if they can."""
    try:
        from torchvision.io import encode_jpeg
        tiny = encode_jpeg(torch.zeros(3, 16, 16, dtype=torch.uint8))
        jpeg_decoder()([tiny], device=device)
    except Exception as error:
        return ' '.join(str(error).split())[:200] or type(error).__name__
    return None


@MODELS.register_module()
class DecodingDataPreprocessor(ImgDataPreprocessor):
    """Decodes, crops, resizes, flips and normalizes on the model's device.

    For what ``PackEncodedCrop`` packs. A batch that the device's decoder
    refuses is decoded by the CPU, as other pipelines do, and the log says so
    once. Batches of images, (B, 3, H, W), pass as in mmengine.

    Args:
        size (int | tuple[int, int]): Of the crops, height and width.
        interpolation (str): ``'bilinear'`` or ``'bicubic'``, antialiased.
            Defaults to 'bicubic'.
        to_rgb (bool): As mmpretrain's ``SelfSupDataPreprocessor``: whether
            the model sees RGB. Defaults to False.
        **kwargs: Of mmengine's ``ImgDataPreprocessor``.

    Raises:
        UserError: In training, naming a file that cannot be decoded.
    """

    def __init__(self,
                 size: int | tuple[int, int],
                 interpolation: str = 'bicubic',
                 to_rgb: bool = False,
                 **kwargs) -> None:
        super().__init__(bgr_to_rgb=to_rgb, **kwargs)
        self.size = [size, size] if isinstance(size, int) else list(size)
        self.interpolation = F.InterpolationMode(interpolation)
        self._told = False

    def forward(self, data: dict, training: bool = False) -> dict:
        """From files, or images, to a batch.

        Args:
            data (dict): ``inputs``, a list of what ``PackEncodedCrop`` packs,
                and ``data_samples``; or images.
            training (bool): Not used. Defaults to False.

        Returns:
            dict: ``inputs``, (B, 3, h, w), float32, and ``data_samples``.
        """
        return super().forward(dict(data, inputs=self.pictures(data)),
                               training)

    def pictures(self, data: dict, number: int | None = None) -> Tensor:
        """The images of a batch before they are normalized.

        Args:
            data (dict): As of :meth:`forward`.
            number (int, optional): How many, the first ones. Defaults to
                None, all.

        Returns:
            Tensor: (B, 3, h, w), BGR, uint8; what ``data`` holds if that is
            images.
        """
        inputs, samples = data['inputs'], data.get('data_samples')
        if isinstance(inputs, Tensor) or samples is None:
            return inputs[:number]
        return torch.stack(self._crops(inputs[:number], samples[:number]))

    def _crops(self, inputs: Sequence[Tensor],
               samples: Sequence) -> list[Tensor]:
        """Crops of one size, (3, h, w), BGR, uint8, on the device."""
        files = [i for i, sample in enumerate(samples) if sample.crop]
        images = dict(enumerate(inputs))
        images |= zip(files, self._decode([inputs[i] for i in files],
                                          [samples[i] for i in files]))
        crops = []
        for i, sample in enumerate(samples):
            image = images[i].to(self.device, non_blocking=True)
            if sample.crop:
                image = F.resized_crop(
                    image, *sample.crop, size=self.size,
                    interpolation=self.interpolation, antialias=True)
            crops.append(F.horizontal_flip(image) if sample.flip else image)
        return crops

    def _decode(self, files: Sequence[Tensor],
                samples: Sequence) -> list[Tensor]:
        """Images, (3, H, W), BGR, uint8."""
        if not files:
            return []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter('ignore')  # of torchvision's farewell
                images = jpeg_decoder()(list(files), device=self.device)
        except torch.cuda.OutOfMemoryError:
            raise  # a smaller batch is the way out, not another decoder
        except (ImportError, RuntimeError) as error:
            if not self._told:
                self._told = True
                print_log(
                    'a batch is decoded by the CPU, for the decoder on '
                    f'{self.device} refused it '
                    f'({" ".join(str(error).split())[:200]}); it will not be '
                    'told again', logger='current', level=logging.WARNING)
            return [_decode_by_cpu(file, sample)
                    for file, sample in zip(files, samples, strict=True)]
        return [image.flip(0) for image in images]


def _decode_by_cpu(file: Tensor, sample: object) -> Tensor:
    """One image, (3, H, W), BGR, uint8."""
    try:
        image = decode(file.numpy().tobytes())
    except ScanDamage as damage:
        print_log(f"image '{sample.img_path}' {damage}", logger='current',
                  level=logging.WARNING)
        image = damage.image
    except ImageProblem as problem:
        raise UserError(
            f"image '{sample.img_path}' {problem}: copy it again or delete "
            'it') from problem
    return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))
