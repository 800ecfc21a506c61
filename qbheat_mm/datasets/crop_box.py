# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pipelines that record which part of an image the network sees.

Transforms of the scope qbheat_mm update ``crop_box``; others may leave every
pixel at its place relative to the image. Any other may move pixels unrecorded.
"""
from collections.abc import Iterable, Iterator
from typing import Any

from mmcv import transforms as mmcv
from mmengine.dataset import Compose
from mmpretrain.datasets import transforms as mmpretrain
from mmpretrain.datasets.transforms.processing import (
    TorchVisonTransformWrapper,
)
from torchvision import transforms as torchvision

from ..errors import UserError
from ..registry import TRANSFORMS
from .transforms import (
    FastPackInputs,
    FastRandomFlip,
    LoadNamedImageFromFile,
    LoadRandomResizedCrop,
    TorchvisionRandomResizedCrop,
)

_LOADERS = (LoadNamedImageFromFile, LoadRandomResizedCrop)
_RECORDING = (TorchvisionRandomResizedCrop, FastRandomFlip)
#: These change colors, the type of an image, or the size of all of it, as
#: mmcv's Resize does.
_NOT_MOVING = (
    FastPackInputs, mmcv.Normalize, mmcv.RandomGrayscale,
    mmpretrain.AutoContrast, mmpretrain.Brightness, mmpretrain.ColorJitter,
    mmpretrain.ColorTransform, mmpretrain.Contrast, mmpretrain.Cutout,
    mmpretrain.Equalize, mmpretrain.GaussianBlur, mmpretrain.Invert,
    mmpretrain.Lighting, mmpretrain.NumpyToPIL, mmpretrain.PILToNumpy,
    mmpretrain.Posterize, mmpretrain.RandomErasing, mmpretrain.ResizeEdge,
    mmpretrain.Sharpness, mmpretrain.Solarize, mmpretrain.SolarizeAdd,
    torchvision.ColorJitter, torchvision.GaussianBlur, torchvision.Grayscale,
    torchvision.RandomAdjustSharpness, torchvision.RandomAutocontrast,
    torchvision.RandomEqualize, torchvision.RandomGrayscale,
    torchvision.RandomInvert, torchvision.RandomPosterize,
    torchvision.RandomSolarize)
_NESTING = (mmcv.Compose, mmcv.RandomApply, mmcv.RandomChoice,
            mmpretrain.RandAugment)


def require_crop_box(pipeline: Compose) -> None:
    """Raise UserError if a pipeline of training images may hide a crop.

    Args:
        pipeline (Compose): Pipeline of a data set. It must begin with a
            loader of ours, and pack ``crop_box`` and ``sample_idx``.
    """
    for place, transform in _leaves(pipeline.transforms, ''):
        is_loader = isinstance(transform, _LOADERS)
        is_first = place == '[0]'
        step = (transform.t if isinstance(
            transform, TorchVisonTransformWrapper) else transform)
        # A subclass of Resize in mmdet pads the image.
        is_known = is_loader or type(step) is mmcv.Resize or isinstance(
            step, _RECORDING + _NOT_MOVING)
        setting = f'train_dataloader.dataset.pipeline{place}'
        if is_loader != is_first or not is_known:
            name = type(step).__name__
            fix = 'remove it'
            if type(transform).__name__ in TRANSFORMS.module_dict:
                fix = "give it _scope_='qbheat_mm'"
            raise UserError(
                f'{setting} ({name}) does not record which part of the image '
                f'it shows, which the maps of a teacher need: {fix}, or '
                'set model.target_generator.online=True')
        if isinstance(step, FastPackInputs) and not (
                {'crop_box', 'sample_idx'} <= {*step.meta_keys}):
            raise UserError(
                f'{setting}.meta_keys={step.meta_keys}: a teacher needs '
                'crop_box and sample_idx: add them, or leave out meta_keys')


def _leaves(transforms: Iterable, place: str) -> Iterator[tuple[str, Any]]:
    """Yield transforms and their places, looking into wrappers."""
    for number, transform in enumerate(transforms):
        here = f'{place}[{number}]'
        if not isinstance(transform, _NESTING):
            yield here, transform
        elif isinstance(transform, mmcv.Compose):
            yield from _leaves(transform, here)
        else:
            yield from _leaves(transform, f'{here}.transforms')
