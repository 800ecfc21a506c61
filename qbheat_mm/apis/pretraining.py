# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pre-training on one's own images by one call."""
import os
import os.path as osp
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from mmengine.registry import RUNNERS

from ..arguments import (
    BOOL,
    MAPPING,
    NATURAL,
    PATH,
    POSITIVE_INT,
    TEXT,
    either,
    multiple,
    optional,
    several,
)
from ..cli import check_data, read_config
from ..engine.resuming import latest_checkpoint
from ..errors import UserError
from ..model_index import find_config
from ..models.backbones import MobileFormer
from ..utils.atomic_write import atomic_write
from ..utils.images import find_images

CONFIG = 'qbheat_mf-285m_1xb256-amp-coslr-400e_own-images'


def pretrain(images: str | Sequence[str],
             out: str,
             arch: str | Mapping = 'mf-285m',
             epochs: int = 400,
             batch_size: int = 256,
             size: int = 256,
             workers: int | None = None,
             resume: bool = False,
             seed: int = 0,
             options: Mapping[str, Any] | None = None) -> str:
    """Pre-train an encoder by QB-Heat on images without labels.

    It runs ``qbheat_mf-285m_1xb256-amp-coslr-400e_own-images``, our
    configuration, in this process, on the GPU if there is one. The learning
    rate is that of the batch, 1.5e-4 for 256 images, the target is pixels as
    they are, and the schedule ends with the epochs. For several GPUs take
    ``tools/dist_train.sh`` with the same configuration.

    Args:
        images (str | Sequence[str]): A folder, flat or nested, or files and
            folders; two images at least.
        out (str): Folder for checkpoints and logs.
        arch (str | Mapping): Of ``MobileFormer``: 'mf-285m', 'mf-1.0g',
            'mf-3.7g', a variant of V1, or a table of rows. Defaults to
            'mf-285m'.
        epochs (int): Defaults to 400.
        batch_size (int): Images in a step. Defaults to 256.
        size (int): Side of the crops in pixels, a multiple of four patches:
            of 64 for the encoders of QB-Heat. Defaults to 256.
        workers (int, optional): Processes that load images. By default 8, or
            as many as there are processors.
        resume (bool): Go on with the run in ``out``. Defaults to False.
        seed (int): Defaults to 0.
        options (Mapping[str, Any], optional): Any other settings, by their
            names, as ``{'optim_wrapper.optimizer.weight_decay': 0.05}``.

    Returns:
        str: The last checkpoint, for :func:`load_encoder`.

    Raises:
        UserError: If there are no images, a setting is impossible, or
            ``out`` holds a run that is not to be resumed.

    Examples:
        >>> checkpoint = pretrain('my_images', 'runs/mine', epochs=100)
        >>> encoder = load_encoder(checkpoint)
    """
    _check_arguments(out=out, arch=arch, epochs=epochs, batch_size=batch_size,
                     size=size, workers=workers, resume=resume, seed=seed,
                     options=options)
    out = os.fspath(out)
    before = latest_checkpoint(out)
    if before is not None and not resume:
        raise UserError(f'out={out!r} holds a run already ({before}): go on '
                        'with it by resume=True, or give another folder')
    if workers is None:
        workers = min(8, os.cpu_count() or 1)
    settings = {
        **_encoder_settings(arch, size), **_data_settings(images, out),
        'train_cfg.max_epochs': epochs,
        'train_dataloader.batch_size': batch_size,
        'train_dataloader.num_workers': workers,
        'train_dataloader.dataset.pipeline.1.scale': size,
        'auto_scale_lr.enable': True,
        'randomness.seed': seed, 'resume': resume, **(options or {})}
    cfg = read_config(find_config(CONFIG), settings)
    cfg.work_dir = out
    cfg.launcher = 'none'
    check_data(cfg, ('train', ))
    RUNNERS.build(cfg).train()
    return latest_checkpoint(out)


#: What the arguments of :func:`pretrain` may be.
_RULES = dict(
    out=PATH, arch=either(TEXT, MAPPING), epochs=POSITIVE_INT,
    batch_size=POSITIVE_INT, size=POSITIVE_INT, workers=optional(NATURAL),
    resume=BOOL, seed=NATURAL, options=optional(MAPPING))


def _check_arguments(**arguments: Any) -> None:
    """Test arguments before settings are made of them.

    Raises:
        UserError: Naming the first that is wrong.
    """
    for name, value in arguments.items():
        _RULES[name].check(name, value)
    out = os.fspath(arguments['out'])
    if osp.exists(out) and not osp.isdir(out):
        raise UserError(f'out={out!r} is a file: give a folder')


def _encoder_settings(arch: str | Mapping, size: int) -> dict[str, Any]:
    """The parts whose sizes follow from the encoder's.

    Raises:
        UserError: If the images cannot be cut into quarters of patches.
    """
    arch = arch if isinstance(arch, str) else dict(arch)
    with torch.device('meta'):
        table = MobileFormer(arch).arch
    # The stem halves the image, and so does each block that ends in -down.
    halvings = 1 + sum(row[0].endswith('-down') for rows in table['stages']
                       for row in rows)
    multiple('size', size, 'four patches', 4 * 2**halvings)
    return {
        'model.backbone.arch': arch if isinstance(arch, str) else dict(
            arch, _delete_=True),
        'model.predictor.in_channels': table['conv'],
        'model.neck.patch_size': 2**halvings,
        'model.head.patch_size': 2**halvings}


def _data_settings(images: str | Sequence[str], out: str) -> dict[str, Any]:
    """Where the images are: a folder, or a list that is written down."""
    either(PATH, several(PATH)).check('images', images)
    if PATH.holds(images):
        images = str(images)
        if osp.isdir(images):
            return {'train_dataloader.dataset.data_root': images}
        images = [images]
    files = find_images([str(image) for image in images])
    os.makedirs(out, exist_ok=True)
    listed = osp.join(osp.abspath(out), 'images.txt')
    files = [osp.abspath(name) for name in files]
    for name in files:
        if not _is_one_line(name):
            raise UserError(
                f'the name of image {name!r} cannot be written into a list: '
                'rename it, or give its folder alone')
    with atomic_write(listed) as part, open(part, 'w', encoding='utf-8',
                                          newline='\n') as file:
        file.writelines(f'{name}\n' for name in files)
    return {'train_dataloader.dataset.data_root': '',
            'train_dataloader.dataset.ann_file': listed}


def _is_one_line(name: str) -> bool:
    """Whether a list of files in UTF-8 gives back a name as it is."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return name.splitlines() == [name]
