# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Classify images from frozen features, with all labels and with a few.

The config names training and test images, the numbers of labels and the seed
that chooses them.
"""
import json
import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from projects.real_images.labels import few
from projects.study.classify import (
    BASELINES,
    choose,
    describe_images,
    image_loaders,
    map_and_tokens,
    parse_args,
)
from qbheat_mm.apis import load_encoder
from qbheat_mm.cli import read_config, report_user_errors
from qbheat_mm.models.necks import TransformerProbe
from qbheat_mm.trained import Encoder

#: Side of the maps that `tran-1` sees: equal for all encoders, and cheap.
SIDE = 5
BATCH = 64
RIDGE = [1e1, 1e2, 1e3, 1e4, 1e5]
#: Encoders and probes run here; ridge regression and SVM on the CPU.
DEVICE = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
#: Arrays with one entry per image, by the names of their features.
Parts = Mapping[str, np.ndarray]


def encoded(encoder: Encoder) -> Callable[[Tensor], dict[str, Tensor]]:
    """Describe images by maps and tokens."""
    encoder.to(DEVICE)

    def features(images: Tensor) -> dict[str, Tensor]:
        pixels, tokens = map_and_tokens(encoder, images.to(DEVICE))
        return dict(pixels=F.adaptive_avg_pool2d(pixels, SIDE).cpu(),
                    tokens=tokens.cpu())

    return features


def pooled(parts: Parts) -> dict[str, np.ndarray]:
    """Pool the maps to vectors, and append the first token."""
    pixels = torch.from_numpy(parts['pixels'])
    token = torch.from_numpy(parts['tokens'][:, 0])
    return {f'{n} x {n}': torch.cat(
        [F.adaptive_avg_pool2d(pixels, n).flatten(1), token], 1).numpy()
        for n in (1, 2)}


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
        self.neck = TransformerProbe(pixels, tokens, 192, drop_rate=0.1)
        self.classifier = nn.Linear(192, classes)

    def forward(self, pixels: Tensor, tokens: Tensor) -> Tensor:
        """(B, C, h, w) and (B, T, d) to logits (B, classes)."""
        return self.classifier(self.neck((pixels, tokens))[0])


PROBES = {'lin': Linear, 'tran-1': Transformer}


def learn(kind: str, parts: Parts, labels: np.ndarray, steps: int,
          rate: float, classes: int,
          batch: int = BATCH) -> Callable[[Parts], np.ndarray]:
    """Train a probe; return it."""
    views = [torch.from_numpy(parts[name]).to(DEVICE)
             for name in ('pixels', 'tokens')]
    # Maps of random weights differ in scale by orders of magnitude.
    scales = [view.std().float() + 1e-6 for view in views]
    targets = torch.from_numpy(labels).to(DEVICE)
    network = PROBES[kind](*(view.shape[-1 if view.ndim == 3 else 1]
                             for view in views), classes).to(DEVICE)
    optimizer = torch.optim.AdamW(network.parameters(), rate,
                                  weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (
        min(1, (step + 1) / 20) * (1 + math.cos(math.pi * step / steps)) / 2))
    batch = min(batch, len(labels))
    order = torch.randperm(len(labels))
    for _ in range(steps):
        if len(order) < batch:
            order = torch.randperm(len(labels))
        rows, order = order[:batch], order[batch:]
        inputs = [view[rows].float() / scale
                  for view, scale in zip(views, scales)]
        loss = F.cross_entropy(network(*inputs), targets[rows],
                               label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    network.eval()

    @torch.no_grad()
    def classify(parts: Parts) -> np.ndarray:
        whole = [torch.from_numpy(parts[name]).split(256)
                 for name in ('pixels', 'tokens')]
        found = []
        for views in zip(*whole):
            inputs = [view.to(DEVICE).float() / scale
                      for view, scale in zip(views, scales)]
            found.append(network(*inputs).argmax(1).cpu())
        return torch.cat(found).numpy()

    return classify


def ridge(known: Parts, labels: np.ndarray, new: Parts,
          new_labels: np.ndarray) -> float:
    """Choose pooling and strength leaving one out; top-1 in percent."""
    fits = {}
    for name in known:
        scale = StandardScaler().fit(known[name])
        fit = RidgeClassifierCV(RIDGE).fit(
            scale.transform(known[name]), labels)
        fits[fit.best_score_] = fit, scale.transform(new[name])
    best, inputs = fits[max(fits)]
    return 100 * best.score(inputs, new_labels)


def ridge_and_svm(known: Parts, labels: np.ndarray, new: Parts,
                  new_labels: np.ndarray) -> dict[str, float]:
    """Top-1 in percent; no SVM if no class has three images."""
    if np.bincount(labels).max() < 3:
        score = ridge(known, labels, new, new_labels)
        return {'ridge': score, 'top-1': score}
    return choose(known, labels, new, new_labels)


def probe(kind: str, known: Parts, labels: np.ndarray, new: Parts,
          new_labels: np.ndarray, steps: int, rate: float) -> float:
    """Train a probe; top-1 in percent."""
    torch.manual_seed(0)
    classify = learn(kind, known, labels, steps, rate,
                     1 + max(labels.max(), new_labels.max()))
    return 100 * float((classify(new) == new_labels).mean())


def judge(known: Parts, labels: np.ndarray, new: Parts,
          new_labels: np.ndarray, steps: int, rates: Mapping[str, float]
          ) -> dict[str, float]:
    """Measure top-1 of every judge, in percent; probes need maps."""
    if 'pixels' not in known:
        return ridge_and_svm(known, labels, new, new_labels)
    return {'ridge': ridge(pooled(known), labels, pooled(new), new_labels),
            **{kind: probe(kind, known, labels, new, new_labels, steps, rate)
               for kind, rate in rates.items()}}


def select(parts: Parts, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Rows of all parts."""
    return {name: part[rows] for name, part in parts.items()}


def main() -> None:
    """Write ``metrics.json``."""
    args = parse_args(__doc__)
    cfg = read_config(args.config, args.cfg_options)
    seed = cfg.randomness.seed
    features = BASELINES.get(args.features) or encoded(
        load_encoder(args.features))
    train, test = image_loaders(cfg)
    known, labels = describe_images(features, train)
    if cfg.tuning:
        rows, held = train_test_split(np.arange(len(labels)), test_size=1 / 3,
                                      stratify=labels, random_state=seed)
        new, new_labels = select(known, held), labels[held]
        known, labels = select(known, rows), labels[rows]
    else:
        new, new_labels = describe_images(features, test)
    metrics = judge(known, labels, new, new_labels, cfg.steps, cfg.rates)
    for count in cfg.label_counts:
        rows = few(labels, count, seed)
        metrics.update({
            f'{name}, {count} labels': value for name, value in judge(
                select(known, rows), labels[rows], new, new_labels,
                cfg.steps // 2, cfg.rates).items()})
    args.work_dir.mkdir(parents=True, exist_ok=True)
    (args.work_dir / 'metrics.json').write_text(json.dumps(metrics, indent=1))


if __name__ == '__main__':
    report_user_errors(main)
