# Copyright (c) QB-Heat MM authors. All rights reserved.
from .folders import NamedImageFolder, NamedImageNet
from .images import ImageError, read_image
from .transforms import LoadNamedImageFromFile, LoadRandomResizedCrop

__all__ = ['ImageError', 'LoadNamedImageFromFile', 'LoadRandomResizedCrop',
           'NamedImageFolder', 'NamedImageNet', 'read_image']
