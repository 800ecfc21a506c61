# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Label-free measures of embeddings: rank and similarities."""
import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from ..models.backbones import MobileFormer
from ..utils.modules import evaluating


def effective_rank(embeddings: Tensor) -> float:
    """Compute RankMe, the number of directions that embeddings use.

    Equation 1 of Garrido et al., "RankMe: Assessing the Downstream Performance
    of Pretrained Self-Supervised Representations by Their Rank" (ICML 2023):
    the exponential of the entropy of the singular values of the embeddings
    (N, D), not centered. It is 1 if all are on one line, at most min(N, D),
    and grows with N: only compare values of equal N.
    """
    values = torch.linalg.svdvals(embeddings.double())
    if not values.sum() > 0:
        return 0.
    shares = values / values.sum() + 1e-7
    return float((-shares * shares.log()).sum().exp())


def mean_similarity(vectors: Tensor) -> Tensor:
    """Compute the mean cosine of two different vectors of (..., N, D).

    Returns:
        Tensor: (...), from -1 / (N - 1) to 1, the value after collapse.
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
        model (nn.Module): A model with a ``backbone``; left unchanged.
        batches (Iterable[Tensor]): Normalized images, (B, 3, H, W) each, at
            least two in all.

    Returns:
        dict[str, float]: ``effective_rank`` and ``embedding_similarity`` of
        the pooled features; ``feature_similarity`` of the positions of an
        image, which grows with oversmoothing (Wang et al., "Anti-Oversmoothing
        in Deep Vision Transformers via the Fourier Domain Analysis", ICLR
        2022, Section 2); for a ``MobileFormer`` also ``token_similarity`` of
        the tokens of an image and ``token_similarity_across_images`` of a
        token in different images.
    """
    pooled, features, tokens = [], [], []
    with evaluating(model):
        backbone = with_tokens(model.backbone)
        for images in batches:
            outs = backbone(images)
            outs = (outs, ) if isinstance(outs, Tensor) else outs
            for out in outs:
                if out.ndim == 4:
                    maps = out
                elif out.ndim == 3:
                    tokens.append(out)
            pooled.append(maps.mean(dim=(2, 3)))
            if maps[0, 0].numel() > 1:
                features.append(mean_similarity(maps.flatten(2).mT))
    measures = dict(
        effective_rank=effective_rank(torch.cat(pooled)),
        embedding_similarity=mean_similarity(torch.cat(pooled)))
    if features:
        measures['feature_similarity'] = torch.cat(features)
    if tokens:
        tokens = torch.cat(tokens)  # (N, T, d)
        if tokens.shape[1] > 1:
            measures['token_similarity'] = mean_similarity(tokens)
        measures['token_similarity_across_images'] = mean_similarity(
            tokens.transpose(0, 1))
    return {name: float(torch.as_tensor(value).mean())
            for name, value in measures.items()}


def with_tokens(backbone: nn.Module) -> nn.Module:
    """Let a ``MobileFormer`` return its last features and its tokens.

    Returns:
        nn.Module: A copy that shares all weights; any other backbone itself.
    """
    if isinstance(backbone, MobileFormer):
        backbone = copy.copy(backbone)
        backbone.out_indices = (backbone.num_stages, backbone.num_stages + 1)
    return backbone
