# Copyright (c) QB-Heat MM authors. All rights reserved.
from .transforms import LoadNamedImageFromFile

__all__ = ['LoadNamedImageFromFile']
