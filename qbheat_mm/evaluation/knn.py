# Copyright (c) QB-Heat MM authors. All rights reserved.
"""k-NN classification of embeddings.

Follows Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance
Discrimination" (CVPR 2018, Section 3.4): the k training images with the
highest cosine similarity s vote for their classes, weighted by exp(s / 0.07).
k = 20 as in Caron et al., "Emerging Properties in Self-Supervised Vision
Transformers" (ICCV 2021, Section 4.1). Masked models score low by k-NN and
high by probes: report both.
"""
import numpy as np

K = 20
TEMPERATURE = 0.07


def knn_accuracy(train: np.ndarray,
                 train_labels: np.ndarray,
                 queries: np.ndarray | None = None,
                 query_labels: np.ndarray | None = None,
                 k: int = K,
                 temperature: float = TEMPERATURE) -> float:
    """Compute the k-NN accuracy in percent, with scikit-learn.

    Args:
        train (np.ndarray): Labeled embeddings, (N, D).
        train_labels (np.ndarray): Their classes, (N,).
        queries (np.ndarray, optional): Embeddings to classify, (M, D).
            Defaults to ``train``, leaving one out.
        query_labels (np.ndarray, optional): Their classes, (M,).
        k (int): Number of neighbors, at most all. Defaults to 20.
        temperature (float): Softmax temperature of the votes. Defaults to
            0.07.
    """
    from sklearn.neighbors import KNeighborsClassifier

    classifier = KNeighborsClassifier(
        min(k, len(train) - (queries is None)), metric='cosine',
        # Relative to the nearest, since exp(1 / temperature) may overflow.
        weights=lambda distances: np.exp(
            (distances[:, :1] - distances) / temperature))
    return 100 * classifier.fit(train, train_labels).score(
        queries, train_labels if queries is None else query_labels)
