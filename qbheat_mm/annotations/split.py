# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Split images at random, by class, with those of one scene together."""
import os.path as osp
import re
from collections import defaultdict
from collections.abc import Sequence

import cv2
import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..datasets.images import REDUCTIONS, ImageFile
from ..errors import UserError
from .export import Account

#: Bits in which near-duplicates may differ, of the 256 of a hash.
NEAR = 8
# Random orders to try.
_TRIALS = 20


def perceptual_hash(image: ImageFile) -> np.ndarray:
    """Compare the brightness of neighbors in a thumbnail, (256,), bool."""
    reduction = max(each for each in REDUCTIONS if each == 1 or (
        image.reducible and min(image.shape) >= 34 * each))
    gray = image.decode(reduction, strict=False).mean(2, dtype=np.float32)
    small = cv2.resize(gray, (17, 16), interpolation=cv2.INTER_AREA)
    # Noise on flat areas must not look like content.
    return (small[:, 1:] > small[:, :-1] + 1).ravel()


def find_scenes(files: Sequence[str], hashes: np.ndarray | None,
                parts: int) -> np.ndarray:
    """Number the scenes of images.

    Args:
        files (Sequence[str]): Paths.
        hashes (np.ndarray, optional): (N, 256), bool. Images that are nearly
            equal are one scene.
        parts (int): Number of scenes in a video: images whose names differ
            only in the last number. Consecutive ones stay together.

    Returns:
        np.ndarray: (N,), int.
    """
    videos = defaultdict(list)
    for i, file in enumerate(files):
        # Roboflow adds a hash to each augmented copy of an image.
        name = re.sub(r'(_(jpe?g|png))?\.rf\.\w+$', '', osp.splitext(file)[0])
        video, frame, _ = re.fullmatch(r'(.*?)(\d*)(\D*)', name, re.S).groups()
        videos[video if frame else name].append((int(frame or 0), name, i))
    links = []
    for frames in videos.values():
        frames.sort()
        names = {name: n for n, name in enumerate(
            dict.fromkeys(name for _, name, _ in frames))}
        length = -(-len(names) // parts)
        first = {}
        for _, name, i in frames:
            links.append((first.setdefault(names[name] // length, i), i))
    if hashes is not None:
        signs = hashes.astype(np.float32) * 2 - 1
        for start in range(0, len(signs), 1000):
            # The product is the number of equal bits minus that of others.
            near = signs[start:start + 1000] @ signs.T >= 256 - 2 * NEAR
            links += [(start + i, j) for i, j in np.argwhere(near)]
    rows, columns = np.array(links).T
    graph = coo_array((np.ones(len(rows), bool), (rows, columns)),
                      (len(files), len(files)))
    return connected_components(graph, directed=False)[1]


def split_scenes(scenes: np.ndarray, counts: np.ndarray, share: float,
                 seed: int) -> np.ndarray:
    """Choose scenes for validation that hold this share of each class.

    Args:
        scenes (np.ndarray): Scene of each image, (N,), int.
        counts (np.ndarray): Objects of each class in each image, (N, C).
        share (float): Share of images and objects to choose.
        seed (int): Seed of the order in which scenes are tried.

    Returns:
        np.ndarray: Whether an image is for validation, (N,), bool.
    """
    groups = np.zeros((scenes.max() + 1, counts.shape[1] + 1))
    np.add.at(groups, scenes, np.column_stack([counts, np.ones(len(scenes))]))
    groups /= np.maximum(groups.sum(0), 1)
    random, best = np.random.default_rng(seed), (np.inf, None)
    for _ in range(_TRIALS if len(groups) < 20000 else 2):
        order = random.permutation(len(groups))
        # Rare classes first: a scene with much of one class.
        order = order[np.argsort(-groups[order].max(1), kind='stable')]
        chosen, total = np.zeros(len(groups), bool), np.zeros(
            groups.shape[1])
        for i in order:
            gain = ((total - share)**2).sum() - (
                (total + groups[i] - share)**2).sum()
            if gain > 0:
                total, chosen[i] = total + groups[i], True
        for label in np.flatnonzero(total == 0):
            options = np.flatnonzero(groups[:, label])
            if len(options) > 1:
                smallest = options[groups[options].sum(1).argmin()]
                total, chosen[smallest] = total + groups[smallest], True
        cost = ((total - share)**2).sum() + (total == 0).sum()
        if cost < best[0]:
            best = cost, chosen
    return best[1][scenes]


def choose_validation(files: Sequence[str], hashes: np.ndarray,
                      counts: np.ndarray, classes: Sequence[str],
                      share: float, seed: int,
                      account: Account) -> np.ndarray:
    """Choose images for validation, scenes whole if that is possible.

    Returns:
        np.ndarray: (N,), bool.

    Raises:
        UserError: If a class would have no object in one of the parts.
    """
    total = counts.sum(0)
    for parts, near, kept in (
            (1, hashes, 'videos (by name) and near-duplicates kept together'),
            (50, hashes, 'runs of consecutive names and near-duplicates kept '
             'together'),
            (50, None, 'runs of consecutive names kept together'),
            (len(files), None, 'single images')):
        scenes = find_scenes(files, near, parts)
        chosen = split_scenes(scenes, counts, share, seed)
        held = counts[chosen].sum(0)
        lost = (total > 0) & ((held == 0) | (held == total))
        if not lost.any() and share / 2 <= chosen.mean() <= max(2 * share, .5):
            account.note('split', kept, '', int(scenes.max()) + 1)
            return chosen
    name = classes[int(lost.argmax())]
    raise UserError(
        f'class {name!r} has {total[lost.argmax()]} objects in '
        f'{(counts[:, lost.argmax()] > 0).sum()} images, too few for training '
        f"and validation: annotate more, or leave it out with --drop-class "
        f"'{name}'")
