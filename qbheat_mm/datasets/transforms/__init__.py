# Copyright (c) QB-Heat MM authors. All rights reserved.
from .loading import LoadNamedImageFromFile
from .resized_crop import TorchvisionRandomResizedCrop

__all__ = ['LoadNamedImageFromFile', 'TorchvisionRandomResizedCrop']
