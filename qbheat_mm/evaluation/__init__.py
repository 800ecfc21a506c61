# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Evaluate embeddings without training anything on them."""
from .knn import knn_accuracy, knn_classify
from .knn_metric import KNNAccuracy

__all__ = ['KNNAccuracy', 'knn_accuracy', 'knn_classify']
