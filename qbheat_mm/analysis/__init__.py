# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What a trained model has learned: numbers and pictures.

One module per question, with its figure. Functions take tensors and models;
the tools in ``tools/analysis`` read and write the files.
"""
