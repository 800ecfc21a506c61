# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Images and models of the analysis tools."""
from argparse import Namespace
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config

from ..apis import load_encoder
from ..config.reading import read_config
from ..datasets import find_images, fitting_size, load_images, spread
from ..errors import UserError, printable
from ..evaluation.embedding import height_and_width
from ..models.selfsup import QBHeat
from ..trained.encoder import Encoder
from ..trained.model import build_pretraining, load_pretraining
from ..trained.normalization import Normalization, Normalize
from ..utils.settings import training_size


def read_images(args: Namespace, cfg: Config,
                unit: int) -> tuple[list[str], list[np.ndarray]]:
    """Read the images given as arguments, see :func:`load_images`.

    Raises:
        UserError: If there is no image, or ``--size`` is invalid.
    """
    files = find_images(args.images)
    given = size = height_and_width(args.size, training_size(cfg))
    if given:
        size = fitting_size(given, unit)
    if size != given:
        print(f'scaling images to {size[0]}x{size[1]}: the model needs '
              f'multiples of {unit}')
    files, images = load_images(
        spread(files, args.max_images or len(files)), size, unit)
    return [printable(file) for file in files], images


def to_batch(images: list[np.ndarray]) -> torch.Tensor:
    """Stack BGR images (H, W, 3) into an RGB batch (B, 3, H, W), uint8.

    Raises:
        UserError: If their sizes differ.
    """
    if len({image.shape for image in images}) > 1:
        raise UserError('this analysis needs images of equal size: give '
                        '--size PIXELS')
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).flip(1)


def load_run(args: Namespace, linear: bool = False
             ) -> tuple[QBHeat, Normalize, list[str], list[np.ndarray]]:
    """Load the pre-training model and the images given as arguments.

    Args:
        args (Namespace): Arguments of ``analysis_parser``.
        linear (bool): Whether to require matrices A and B. Defaults to False.

    Returns:
        tuple[QBHeat, Normalize, list[str], list[np.ndarray]]: Model and input
        normalization on ``--device``, files and images.
    """
    cfg = read_config(args.config, args.cfg_options)
    model = build_pretraining(cfg, args.config, linear)
    load_pretraining(model, args.checkpoint)
    normalize = Normalize(Normalization.of(model))
    return (model.to(args.device), normalize.to(args.device),
            *read_images(args, cfg, model.size_unit))


def load_encoders(args: Namespace
                  ) -> tuple[dict[str, Encoder], list[str], list[np.ndarray]]:
    """Load the encoders to compare and the images.

    Args:
        args (Namespace): Arguments of ``analysis_parser`` with
            ``compare=True``.

    Returns:
        tuple[dict[str, Encoder], list[str], list[np.ndarray]]: Encoders by
        name, files and images.

    Raises:
        UserError: If ``--names`` doesn't give each encoder its own name.
    """
    pairs = [(args.config, args.checkpoint), *args.also]
    names = args.names or [Path(config).stem for config, _ in pairs]
    if len(names) != len(pairs) or len(set(names)) != len(pairs):
        raise UserError(
            f'{len(pairs)} encoders need {len(pairs)} different names, not '
            f'{", ".join(names)}: give --names')
    cfg = read_config(args.config, args.cfg_options)
    encoders = {names[0]: load_encoder(args.checkpoint, cfg,
                                       device=args.device)}
    for name, (config, checkpoint) in zip(names[1:], args.also):
        encoders[name] = load_encoder(checkpoint, read_config(config),
                                      device=args.device)
    return (encoders, *read_images(args, cfg, 32))
