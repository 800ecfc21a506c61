# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a trained model has learned: numbers and pictures.

Functions of tensors and models; they read and write no files. The tools in
``tools/analysis`` give them files, :mod:`qbheat_mm.analysis.figures` draws.
"""
