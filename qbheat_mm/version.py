# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The version; ``setup.py`` reads the next line without importing it."""
__version__ = '0.5.0'
