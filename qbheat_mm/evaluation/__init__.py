# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Evaluate embeddings without training anything on them."""
from .knn import KNNAccuracy, knn_accuracy, knn_classify

__all__ = ['KNNAccuracy', 'knn_accuracy', 'knn_classify']
