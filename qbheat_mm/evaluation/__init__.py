# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Encoders after training: embeddings, nearest neighbors, several heads."""
from .knn import knn_accuracy

__all__ = ['knn_accuracy']
