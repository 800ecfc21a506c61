# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Analyses of trained models: numbers and figures.

One module per question. Functions take tensors and models; the tools in
``tools/analysis`` read and write files.
"""
