# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Registered model parts, except those for detection."""
from .backbones import *  # noqa: F401, F403
from .necks import *  # noqa: F401, F403
from .selfsup import *  # noqa: F401, F403
