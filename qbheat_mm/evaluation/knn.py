# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Classification by the nearest neighbours of an embedding.

The protocol is that of Wu et al., "Unsupervised Feature Learning via
Non-Parametric Instance Discrimination" (CVPR 2018, Section 3.4): the k
training images of the largest cosine similarity s vote for their classes
with the weight exp(s / 0.07). k = 20 is that of Caron et al., "Emerging
Properties in Self-Supervised Vision Transformers" (ICCV 2021, Section 4.1).
Masked models do poorly by it and well by probes: judge them by both.
"""
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from ..arguments import is_int
from ..errors import UserError

K = 20
TEMPERATURE = 0.07
#: Similarities that are computed at a time, of 4 bytes each.
_AT_A_TIME = 2**24
_LARGE = 1e15


@torch.no_grad()
def knn_classify(train: Tensor | np.ndarray,
                 labels: Tensor | np.ndarray,
                 queries: Tensor | np.ndarray | None = None,
                 k: int = K,
                 temperature: float = TEMPERATURE) -> np.ndarray:
    """Classify embeddings by those of their nearest neighbours.

    Memory is twice that of the embeddings in float32, which are normalised
    in a copy, and 64 MiB.

    Args:
        train (Tensor | np.ndarray): Embeddings with labels, (N, D), on any
            device, which then computes.
        labels (Tensor | np.ndarray): Classes, (N,), whole numbers from 0.
        queries (Tensor | np.ndarray, optional): Embeddings to classify,
            (M, D). By default those of ``train``, each by the others.
        k (int): How many neighbours vote; all where there are fewer.
            Defaults to 20.
        temperature (float): Of the weights exp(similarity / temperature).
            Defaults to 0.07.

    Returns:
        np.ndarray: Classes, (M,), int64.

    Raises:
        UserError: If shapes, numbers or values are impossible.
    """
    bank = _as_embeddings('train', train)
    labels = _as_labels(labels).to(bank.device)
    others = 0 if queries is not None else 1
    found = bank if queries is None else _as_embeddings(
        'queries', queries).to(bank.device)
    _check(bank, labels, found, k, temperature, others)
    k = min(k, len(bank) - others)
    num_classes = int(labels.max()) + 1
    rows = max(_AT_A_TIME // max(len(bank), num_classes), 1)
    classes = []
    for first in range(0, len(found), rows):
        similarity = found[first:first + rows] @ bank.T
        if others:  # no image is its own neighbour
            similarity.diagonal(first).fill_(-torch.inf)
        nearest, index = similarity.topk(k, dim=1)
        # Nothing but the ratios of the votes counts, so that the nearest
        # may have 1: exp(1 / temperature) may be too large for a float.
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
    """Share of embeddings whose neighbours vote for their class.

    Args:
        train (Tensor | np.ndarray): Embeddings with labels, (N, D).
        train_labels (Tensor | np.ndarray): Classes, (N,), from 0.
        queries (Tensor | np.ndarray, optional): Embeddings to classify,
            (M, D). By default those of ``train``, each by the others.
        query_labels (Tensor | np.ndarray, optional): Their classes, (M,).
        k (int): How many neighbours vote. Defaults to 20.
        temperature (float): Of their weights. Defaults to 0.07.

    Returns:
        float: Per cent.

    Raises:
        UserError: If shapes, numbers or values are impossible.
    """
    if (queries is None) != (query_labels is None):
        raise UserError('queries and query_labels belong together: give both, '
                        'or neither')
    truth = _as_labels(train_labels if queries is None else query_labels)
    found = knn_classify(train, train_labels, queries, k, temperature)
    truth = truth.cpu().numpy()
    if truth.shape != found.shape:
        raise UserError(f'{len(found)} embeddings have labels of shape '
                        f'{truth.shape}: give one number for each')
    return 100 * float((found == truth).mean())


def _as_embeddings(name: str, values: Tensor | np.ndarray) -> Tensor:
    """Embeddings of length 1, in float32."""
    values = torch.as_tensor(values).float()
    if values.ndim != 2 or not len(values):
        raise UserError(f'{name}: embeddings of shape {tuple(values.shape)} '
                        'are not (N, D) with at least one row')
    if not values.isfinite().all():
        raise UserError(f'{name}: embeddings are NaN or infinite: the '
                        'encoder diverged, or the files are damaged')
    largest = values.abs().amax(dim=1, keepdim=True)
    # Their squares would be infinite.
    values = torch.where(largest > _LARGE, values / largest, values)
    return normalize(values, dim=1)


def _as_labels(labels: Tensor | np.ndarray) -> Tensor:
    """Whole numbers, (N,), int64."""
    try:
        given = torch.as_tensor(labels)
        whole = given.long()
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError('labels are no numbers: number the classes from 0'
                        ) from error
    if not torch.equal(whole.to(given.dtype), given):
        raise UserError('labels have fractions: number the classes from 0')
    return whole


def _check(bank: Tensor, labels: Tensor, queries: Tensor, k: int,
           temperature: float, others: int) -> None:
    if bank.shape[1] != queries.shape[1]:
        raise UserError(f'embeddings of {bank.shape[1]} and of '
                        f'{queries.shape[1]} numbers cannot be compared: '
                        'take both from one encoder')
    if labels.shape != bank.shape[:1]:
        raise UserError(f'{len(bank)} embeddings need as many labels, and '
                        f'these have the shape {tuple(labels.shape)}')
    if labels.min() < 0:
        raise UserError(f'label {int(labels.min())}: labels are whole numbers '
                        'from 0')
    if len(bank) <= others:
        raise UserError('one embedding has no neighbour: give two at least')
    if not is_int(k) or k < 1 or not temperature > 0:
        raise UserError(f'k={k} must be a whole number from 1 on and '
                        f'temperature={temperature} above 0')
