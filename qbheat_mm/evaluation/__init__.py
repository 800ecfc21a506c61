# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Encoders after training: embeddings, nearest neighbors, several heads."""
from .knn import KNNAccuracy, knn_accuracy, knn_classify

__all__ = ['KNNAccuracy', 'knn_accuracy', 'knn_classify']
