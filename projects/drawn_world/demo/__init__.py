# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The embedded demo: its data set, drawn at run time, and its driver's parts.

This module imports nothing, so that ``python -m projects.drawn_world.demo.data`` needs
neither toolbox's data sets; the demo's configs import
``projects.drawn_world.demo.classification`` and ``projects.drawn_world.demo.detection``.
"""
