# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Figures of numbers: each function returns a figure and writes no file.

Matplotlib, an optional dependency, is imported when something is drawn.
"""
