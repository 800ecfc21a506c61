# Copyright (c) QB-Heat MM authors. All rights reserved.
from .decoding import DecodingDataPreprocessor
from .folders import NamedImageFolder, NamedImageNet
from .transforms import LoadNamedImageFromFile

__all__ = ['DecodingDataPreprocessor', 'LoadNamedImageFromFile',
           'NamedImageFolder', 'NamedImageNet']
