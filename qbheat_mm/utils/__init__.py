# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Utilities for the whole package."""
