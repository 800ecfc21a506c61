# Copyright (c) QB-Heat MM authors. All rights reserved.
from .encoded_crop import PackEncodedCrop
from .loading import LoadNamedImageFromFile
from .lookup import LookupRandAugment
from .resized_crop import TorchvisionRandomResizedCrop

__all__ = ['LoadNamedImageFromFile', 'LookupRandAugment', 'PackEncodedCrop',
           'TorchvisionRandomResizedCrop']
