# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The embedded demo: its data set, drawn at run time, and its driver's parts.

This module imports nothing, so that ``python -m qbheat_mm.demo.data`` needs
neither toolbox's data sets; the demo's configs import
``qbheat_mm.demo.classification`` and ``qbheat_mm.demo.detection``.
"""
