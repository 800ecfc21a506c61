# Copyright (c) QB-Heat MM authors. All rights reserved.
from .folders import NamedImageFolder, NamedImageNet
from .transforms import LoadNamedImageFromFile

__all__ = ['LoadNamedImageFromFile', 'NamedImageFolder', 'NamedImageNet']
