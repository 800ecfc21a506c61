# Copyright (c) QB-Heat MM authors. All rights reserved.
from .find import short_names, spread
from .image_folder import NamedImageFolder, NamedImageNet, find_images
from .images import ImageError, fit, fitting_size, load_images, read_image
from .rand_augment import LookupRandAugment
from .transforms import LoadNamedImageFromFile, LoadRandomResizedCrop

__all__ = [
    'ImageError', 'LoadNamedImageFromFile', 'LoadRandomResizedCrop',
    'LookupRandAugment', 'NamedImageFolder', 'NamedImageNet', 'find_images',
    'fit', 'fitting_size', 'load_images', 'read_image', 'short_names',
    'spread'
]
