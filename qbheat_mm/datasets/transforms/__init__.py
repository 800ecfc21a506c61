# Copyright (c) QB-Heat MM authors. All rights reserved.
from .loading import LoadNamedImageFromFile
from .lookup import LookupRandAugment
from .resized_crop import LoadRandomResizedCrop, TorchvisionRandomResizedCrop

__all__ = ['LoadNamedImageFromFile', 'LoadRandomResizedCrop',
           'LookupRandAugment', 'TorchvisionRandomResizedCrop']
