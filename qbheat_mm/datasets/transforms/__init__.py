# Copyright (c) QB-Heat MM authors. All rights reserved.
from .loading import LoadNamedImageFromFile

__all__ = ['LoadNamedImageFromFile']
