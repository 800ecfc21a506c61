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
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..errors import UserError

K = 20
TEMPERATURE = 0.07
#: Number of similarities per chunk, 4 bytes each.
CHUNK = 2**24


@torch.no_grad()
def knn_classify(train: Tensor | np.ndarray,
                 labels: Tensor | np.ndarray,
                 queries: Tensor | np.ndarray | None = None,
                 k: int = K,
                 temperature: float = TEMPERATURE) -> np.ndarray:
    """Classify embeddings by their nearest neighbors.

    Args:
        train (Tensor | np.ndarray): Labeled embeddings, (N, D). Their device
            is used.
        labels (Tensor | np.ndarray): Class indices, (N,).
        queries (Tensor | np.ndarray, optional): Embeddings to classify,
            (M, D). Defaults to ``train``, leaving one out.
        k (int): Number of neighbors, at most all. Defaults to 20.
        temperature (float): Softmax temperature of the votes. Defaults to
            0.07.

    Returns:
        np.ndarray: Class indices, (M,), int64.

    Raises:
        UserError: If embeddings are not finite, labels don't match them, or
            there is no neighbor.
    """
    bank, labels = _unit(train), torch.as_tensor(labels).long()
    leave_one_out = queries is None
    found = bank if leave_one_out else _unit(queries).to(bank.device)
    if labels.shape != bank.shape[:1]:
        raise UserError(f'{len(bank)} embeddings have labels of shape '
                        f'{tuple(labels.shape)}')
    if len(bank) <= leave_one_out:
        raise UserError(f'{len(bank)} embeddings have no neighbor')
    if k < 1 or not temperature > 0:
        raise UserError(f'k={k} and temperature={temperature} must be '
                        'positive')
    labels, k = labels.to(bank.device), min(k, len(bank) - leave_one_out)
    num_classes = int(labels.max()) + 1
    rows = max(CHUNK // max(len(bank), num_classes), 1)
    classes = []
    for first in range(0, len(found), rows):
        similarity = found[first:first + rows] @ bank.T
        if leave_one_out:
            similarity.diagonal(first).fill_(-torch.inf)
        nearest, index = similarity.topk(k, dim=1)
        # Relative to the nearest, since exp(1 / temperature) may overflow.
        weights = ((nearest - nearest[:, :1]) / temperature).exp()
        votes = weights.new_zeros(len(nearest), num_classes)
        votes.scatter_add_(1, labels[index], weights)
        classes.append(votes.argmax(dim=1).cpu())
    return torch.cat(classes).numpy()


def knn_accuracy(train: Tensor | np.ndarray,
                 train_labels: Tensor | np.ndarray,
                 queries: Tensor | np.ndarray | None = None,
                 query_labels: Tensor | np.ndarray | None = None,
                 k: int = K,
                 temperature: float = TEMPERATURE) -> float:
    """Compute the k-NN accuracy in percent.

    Args:
        train, queries, k, temperature: See :func:`knn_classify`.
        train_labels (Tensor | np.ndarray): Class indices of ``train``, (N,).
        query_labels (Tensor | np.ndarray, optional): Class indices of
            ``queries``, (M,).

    Raises:
        UserError: See :func:`knn_classify`.
    """
    if (queries is None) != (query_labels is None):
        raise UserError('give both queries and query_labels, or neither')
    found = knn_classify(train, train_labels, queries, k, temperature)
    truth = torch.as_tensor(
        train_labels if queries is None else query_labels).cpu().numpy()
    if truth.shape != found.shape:
        raise UserError(f'{len(found)} embeddings have labels of shape '
                        f'{truth.shape}')
    return 100 * float((found == truth).mean())


def _unit(values: Tensor | np.ndarray) -> Tensor:
    """Scale embeddings (N, D) to length 1, in float32."""
    values = torch.as_tensor(values).float()
    if not values.isfinite().all():
        raise UserError('embeddings are NaN or infinite: the encoder '
                        'diverged, or its file is damaged')
    # Squares of large values would overflow.
    largest = values.abs().amax(dim=1, keepdim=True)
    return normalize(values / largest.clamp(min=1e-30), dim=1)
