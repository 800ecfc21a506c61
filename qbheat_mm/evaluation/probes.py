# Copyright (c) QB-Heat MM authors. All rights reserved.
"""The probes ``lin`` and ``tran-1``, trained on features kept in memory."""
import math
from collections.abc import Callable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..models.necks import TransformerProbe
from .features import Features

BATCH = 64
#: Width of the transformer block of ``tran-1``.
WIDTH = 192


class Linear(nn.Module):
    """``lin``: batch norm without affine parameters, a linear classifier."""

    def __init__(self, pixels: int, tokens: int, classes: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(pixels + tokens, affine=False)
        self.classifier = nn.Linear(pixels + tokens, classes)

    def forward(self, pixels: Tensor, tokens: Tensor) -> Tensor:
        """(B, C, h, w) and (B, T, d) to logits (B, classes)."""
        return self.classifier(self.norm(torch.cat(
            [pixels.mean((2, 3)), tokens[:, 0]], 1)))


class Transformer(nn.Module):
    """``tran-1``: a transformer block, then a linear classifier."""

    def __init__(self, pixels: int, tokens: int, classes: int) -> None:
        super().__init__()
        self.neck = TransformerProbe(pixels, tokens, WIDTH, drop_rate=0.1)
        self.classifier = nn.Linear(WIDTH, classes)

    def forward(self, pixels: Tensor, tokens: Tensor) -> Tensor:
        """(B, C, h, w) and (B, T, d) to logits (B, classes)."""
        return self.classifier(self.neck((pixels, tokens))[0])


PROBES = {'lin': Linear, 'tran-1': Transformer}


def draw_batches(images: int, batch: int, steps: int) -> Iterator[Tensor]:
    """Yield the rows of random batches, epoch by epoch."""
    batch = min(batch, images)
    order = torch.randperm(images)
    for _ in range(steps):
        if len(order) < batch:
            order = torch.randperm(images)
        rows, order = order[:batch], order[batch:]
        yield rows


def learn(kind: str, features: Features, labels: np.ndarray, steps: int,
          rate: float, classes: int, batch: int = BATCH,
          device: str | torch.device = 'cpu'
          ) -> Callable[[Features], np.ndarray]:
    """Train a probe with AdamW, a warm-up and a cosine schedule.

    Args:
        kind (str): ``'lin'`` or ``'tran-1'``.
        features (Mapping[str, np.ndarray]): ``pixels``, (N, C, h, w), and
            ``tokens``, (N, T, d), perhaps in half precision.
        labels (np.ndarray): Classes, (N, ).
        steps (int): Number of steps.
        rate (float): Learning rate.
        classes (int): Number of classes.
        batch (int): Images of a step, at most all. Defaults to 64.
        device (str | torch.device): Defaults to 'cpu'.

    Returns:
        Callable: From features to classes, (N, ).
    """
    pixels = torch.from_numpy(features['pixels']).to(device)
    tokens = torch.from_numpy(features['tokens']).to(device)
    # Maps of random weights differ in scale by orders of magnitude.
    pixel_scale = pixels.std().float() + 1e-6
    token_scale = tokens.std().float() + 1e-6
    targets = torch.from_numpy(labels).to(device)
    network = PROBES[kind](pixels.shape[1], tokens.shape[-1], classes)
    network.to(device)
    optimizer = torch.optim.AdamW(network.parameters(), rate,
                                  weight_decay=0.1)

    def factor(step: int) -> float:
        warm_up = min(1, (step + 1) / 20)
        return warm_up * (1 + math.cos(math.pi * step / steps)) / 2

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    for rows in draw_batches(len(labels), batch, steps):
        logits = network(pixels[rows].float() / pixel_scale,
                         tokens[rows].float() / token_scale)
        loss = F.cross_entropy(logits, targets[rows], label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    network.eval()

    @torch.no_grad()
    def classify(features: Features) -> np.ndarray:
        classified = []
        for pixels, tokens in zip(
                torch.from_numpy(features['pixels']).split(256),
                torch.from_numpy(features['tokens']).split(256)):
            logits = network(pixels.to(device).float() / pixel_scale,
                             tokens.to(device).float() / token_scale)
            classified.append(logits.argmax(1).cpu())
        return torch.cat(classified).numpy()

    return classify


def probe(kind: str, train: Features, labels: np.ndarray, test: Features,
          test_labels: np.ndarray, steps: int, rate: float,
          device: str | torch.device = 'cpu', seed: int = 0) -> float:
    """Train a probe, see :func:`learn`; top-1 on test images, in percent."""
    torch.manual_seed(seed)
    classes = 1 + max(labels.max(), test_labels.max())
    classify = learn(kind, train, labels, steps, rate, classes, device=device)
    return 100 * float((classify(test) == test_labels).mean())
