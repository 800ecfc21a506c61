# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Do embeddings of different images differ? Numbers without labels."""
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from ..models.backbones import MobileFormer
from ..utils.modules import evaluating


def effective_rank(embeddings: Tensor) -> float:
    """How many directions the embeddings of a set of images use.

    RankMe (Garrido et al., "RankMe: Assessing the Downstream Performance of
    Pretrained Self-Supervised Representations by Their Rank", ICML 2023,
    equation 1): the exponential of the entropy of the singular values. It is
    at most the smaller one of N and D and grows with N: compare numbers of
    equally many images.

    Args:
        embeddings (Tensor): (N, D), not centered.

    Returns:
        float: From 1, all on one line; 0 if all are zero.
    """
    values = torch.linalg.svdvals(embeddings.double())
    if not values.sum() > 0:
        return 0.
    shares = values / values.sum() + 1e-7
    return float((-shares * shares.log()).sum().exp())


def mean_similarity(vectors: Tensor) -> Tensor:
    """Mean cosine of two different vectors of a set; 1 after collapse.

    For unit vectors it is, up to the factor N / (N - 1) and the pairs of a
    vector with itself, 1 less the variance of Chen and He, "Exploring Simple
    Siamese Representation Learning" (CVPR 2021, Section 4.1).

    Args:
        vectors (Tensor): (..., N, D), N at least 2.

    Returns:
        Tensor: (...), from -1 / (N - 1) to 1.
    """
    unit = normalize(vectors.double(), dim=-1)
    number = unit.shape[-2]
    # All pairs at once: the squared length of the sum.
    total = unit.sum(dim=-2).square().sum(dim=-1)
    own = unit.square().sum(dim=(-2, -1))
    return (total - own) / (number * (number - 1))


@torch.no_grad()
def describe_embeddings(model: nn.Module,
                        batches: Iterable[Tensor]) -> dict[str, float]:
    """Describe an encoder's embeddings of a set of images.

    Args:
        model (nn.Module): With ``backbone``; left as it was.
        batches (Iterable[Tensor]): Normalized images, (B, 3, H, W) each, at
            least two in all.

    Returns:
        dict[str, float]: ``effective_rank`` and ``embedding_similarity`` of
        the pooled features; ``feature_similarity`` of the positions of an
        image, which grows with oversmoothing (Wang et al., "Anti-Oversmoothing
        in Deep Vision Transformers via the Fourier Domain Analysis", ICLR
        2022, Section 2, on patch tokens); and, of a ``MobileFormer``,
        ``token_similarity`` of the tokens of an image and
        ``token_similarity_across_images`` of a token of different images.
    """
    pooled, features, tokens = [], [], []
    with evaluating(model), all_outputs(model.backbone):
        for images in batches:
            outs = model.backbone(images)
            outs = (outs, ) if isinstance(outs, Tensor) else outs
            maps = next(out for out in reversed(outs) if out.ndim == 4)
            pooled.append(maps.mean(dim=(2, 3)))
            if maps.shape[2] * maps.shape[3] > 1:
                features.append(mean_similarity(maps.flatten(2).mT))
            tokens += [out for out in outs if out.ndim == 3]
    pooled = torch.cat(pooled)
    found = dict(
        effective_rank=effective_rank(pooled),
        embedding_similarity=float(mean_similarity(pooled)))
    if features:
        found['feature_similarity'] = float(torch.cat(features).mean())
    if tokens:
        tokens = torch.cat(tokens)  # (N, T, d)
        if tokens.shape[1] > 1:
            found['token_similarity'] = float(mean_similarity(tokens).mean())
        found['token_similarity_across_images'] = float(
            mean_similarity(tokens.transpose(0, 1)).mean())
    return found


@contextmanager
def all_outputs(backbone: nn.Module) -> Iterator[None]:
    """Let a ``MobileFormer`` return its last features and its tokens."""
    if not isinstance(backbone, MobileFormer):
        yield
        return
    asked = backbone.out_indices
    backbone.out_indices = (backbone.num_stages, backbone.num_stages + 1)
    try:
        yield
    finally:
        backbone.out_indices = asked
