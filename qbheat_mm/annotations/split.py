# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Split images by class at random, and keep scenes together."""
import os.path as osp
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import cv2
import numpy as np

from ..datasets.images import ImageFile
from ..errors import UserError
from .account import Account, Kind
from .records import ListedImage

#: Squared distance of hashes up to which images are near-duplicates. Of 9,900
#: copies of photographs in other sizes and qualities, none is further apart;
#: of 9 million pairs of photographs, 60 are as near.
NEAR = 0.03
_SIDE = 12
# Images of less contrast, in gray levels, are alike because they are flat.
_FLAT = 4
# Compared at once, at some tens of bytes each.
_PAIRS = 1 << 17


def perceptual_hash(image: ImageFile) -> np.ndarray:
    """Reduce an image to 12x12 gray values of mean 0 and norm 1, (144,).

    Size, quality, brightness and contrast hardly change it. Flat images have
    a smaller norm.
    """
    pixels = image.decode(image.reduction(64, 64))
    small = cv2.resize(pixels, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA)
    gray = small.mean(2, dtype=np.float32)
    values = (gray - gray.mean()).ravel()
    return values / max(np.linalg.norm(values), _SIDE * _FLAT)


def find_scenes(files: Sequence[str], hashes: np.ndarray | None,
                parts: int) -> np.ndarray:
    """Number the scenes of images, (N,), int.

    Near-duplicates by their hashes, (N, 144), are one scene. Images whose
    names differ only in the last number are a video of ``parts`` scenes.
    """
    videos = defaultdict(lambda: defaultdict(list))
    for i, file in enumerate(files):
        # Roboflow adds a hash to each augmented copy of an image.
        name = re.sub(r'(_(jpe?g|png))?\.rf\.\w+$', '', osp.splitext(file)[0])
        found = re.fullmatch(r'(.*?)(\d+)\D*', name, re.S)
        video, frame = found.groups() if found else (name, 0)
        videos[video][int(frame), name].append(i)
    scenes, number = np.empty(len(files), int), 0
    for frames in videos.values():
        length = -(-len(frames) // parts)
        for n, frame in enumerate(sorted(frames)):
            number += n % length == 0
            scenes[frames[frame]] = number - 1
    return scenes if hashes is None else _join(scenes, hashes)


def _join(scenes: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """Join the scenes, (N,), of images with close hashes, (N, 144)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    squares = (hashes * hashes).sum(1)
    step = max(_PAIRS // len(hashes), 1)
    for start in range(0, len(hashes), step):
        block = slice(start, start + step)
        products = hashes[block] @ hashes[start:].T
        near = squares[block, None] + squares[start:] - 2 * products <= NEAR
        # In a thousand dark images, nearly all pairs are close.
        near &= scenes[start:start + step, None] != scenes[start:]
        rows, columns = near.nonzero()
        if len(rows):
            links = scenes[start + rows], scenes[start + columns]
            number = scenes.max() + 1
            graph = coo_array((np.ones(len(rows), bool), links),
                              (number, number))
            scenes = connected_components(graph, directed=False)[1][scenes]
    return scenes


def split_scenes(scenes: np.ndarray, counts: np.ndarray, share: float,
                 seed: int) -> np.ndarray:
    """Choose scenes that hold this share of the images and of each class.

    Takes the scene of each image, (N,), and the number of its objects of each
    class, (N, C). Returns which images are chosen, (N,), bool.
    """
    groups = np.zeros((scenes.max() + 1, counts.shape[1] + 1))
    np.add.at(groups, scenes, np.column_stack([counts, np.ones(len(scenes))]))
    groups /= np.maximum(groups.sum(0), 1)
    order = np.random.default_rng(seed).permutation(len(groups))
    # Rare classes first: scenes with much of one class.
    order = order[np.argsort(-groups[order].max(1), kind='stable')]
    chosen, held = np.zeros(len(groups), bool), np.zeros(groups.shape[1])
    for i in np.tile(order, 3):
        other = held - groups[i] if chosen[i] else held + groups[i]
        if ((other - share)**2).sum() < ((held - share)**2).sum() - 1e-12:
            held, chosen[i] = other, not chosen[i]
    for label in np.flatnonzero(held < 1e-9):
        options = np.flatnonzero(groups[:, label])
        if len(options) > 1:
            chosen[options[groups[options].sum(1).argmin()]] = True
    return chosen[scenes]


class Attempt(NamedTuple):
    """A way to make scenes: see :func:`find_scenes`.

    Attributes:
        parts (int): Scenes of which a video is, at most.
        hashes (np.ndarray, optional): Of the images, (N, 144).
        kept (str): What stays together.
    """
    parts: int
    hashes: np.ndarray | None
    kept: str


def choose_validation(files: Sequence[str], hashes: np.ndarray,
                      counts: np.ndarray, classes: Sequence[str],
                      share: float, seed: int) -> tuple[np.ndarray, str]:
    """Choose images for validation; keep scenes whole if that is possible.

    Returns the choice, (N,), bool, and what it keeps together. Raises
    UserError if a class would have no object in one of the parts.
    """
    one_by_one = Attempt(len(files), None, 'images are split one by one')
    for attempt in (
            Attempt(1, hashes,
                    'videos (by name) and near-duplicates stay together'),
            Attempt(50, hashes,
                    'names in a row and near-duplicates stay together'),
            Attempt(50, None, 'names in a row stay together'), one_by_one):
        scenes = find_scenes(files, attempt.hashes, attempt.parts)
        chosen = split_scenes(scenes, counts, share, seed)
        lost = _lost_classes(counts, chosen)
        fits = attempt is one_by_one or _is_near(chosen.mean(), share)
        if fits and not lost.any():
            return chosen, attempt.kept
    few = [repr(name) for name, each in zip(classes, lost) if each]
    raise UserError(
        f'class {", ".join(few)} has too few images for training and '
        'validation: annotate more, or skip it (boxes: --drop-class '
        f'{" ".join(few)})')


def _lost_classes(counts: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Find classes whose objects are all in one part, (C,), bool."""
    total, held = counts.sum(0), counts[chosen].sum(0)
    return (total > 0) & ((held == 0) | (held == total))


def _is_near(share: float, wanted: float) -> bool:
    return wanted / 2 <= share <= max(2 * wanted, 0.5)


def assign_splits(images: Sequence[ListedImage], classes: Sequence[str],
                  val: float, seed: int, account: Account
                  ) -> dict[str, list[ListedImage]]:
    """Return the images of each split; choose those for validation if needed.

    The splits are those of folders and lists. Without validation images, a
    share ``val`` of those for training is chosen at random.

    Raises:
        UserError: If some images have no split, or none is for training.
    """
    splits = {image.split for image in images}
    loose = [image for image in images if not image.split]
    if loose and splits & {'train', 'val'}:
        raise UserError(f"'{loose[0].file}' is in no split, but other images "
                        'are: move it elsewhere, or assign all images to '
                        'train, val or test, or none')
    if not splits & {'', 'train'}:
        raise UserError(f'there are only images for {sorted(splits)}: give '
                        'the training images as well')
    parts = {'train': [], 'val': []}
    if 'val' not in splits:
        free = [image for image in images if image.split != 'test']
        _choose_validation(free, classes, val, seed, account)
    for image in images:
        parts.setdefault(image.split, []).append(image)
    _note_copies(parts, account)
    return parts


def _note_copies(parts: Mapping[str, Sequence[ListedImage]],
                 account: Account) -> None:
    """Warn of copies of training images in other splits.

    Flat images, which look alike, are left out.
    """
    trained = {image.hash.tobytes() for image in parts['train']}
    for split, images in parts.items():
        for image in images:
            if (split != 'train' and image.hash.tobytes() in trained
                    and np.linalg.norm(image.hash) > 0.99):
                account.note(
                    Kind.WARNING, f'images of {split} are copies of training '
                    'images, which inflates results', image.file)


def _choose_validation(images: Sequence[ListedImage], classes: Sequence[str],
                       val: float, seed: int, account: Account) -> None:
    """Set the split of images that have none."""
    columns = {name: i for i, name in enumerate(classes)}
    counts = np.zeros((len(images), len(classes)), int)
    for row, image in zip(counts, images):
        for label in image.labels():
            row[columns[label]] += 1
    chosen, kept = choose_validation(
        [image.file for image in images],
        np.array([image.hash for image in images]), counts, classes, val,
        seed)
    for image, held in zip(images, chosen):
        image.split = 'val' if held else 'train'
    account.note(Kind.VALIDATION, kept, '', int(chosen.sum()))
