# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The version: this one line is what ``setup.py`` reads, unimported."""
__version__ = '0.2.0'
