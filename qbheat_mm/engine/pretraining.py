# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Pre-train an encoder from Python."""
import os
import os.path as osp
from collections.abc import Mapping, Sequence
from typing import Any

from mmengine.registry import RUNNERS

from ..config.model_index import find_config
from ..config.reading import read_config
from ..datasets import find_images
from ..errors import UserError
from ..models.backbones import MobileFormer
from ..models.outputs import Outputs
from ..utils.atomic_write import atomic_write
from .run_state import latest

#: The config for your own images.
CONFIG = 'qbheat_mf-285m_1xb64-amp-coslr-80e_own-images'


def pretrain(images: str | Sequence[str],
             out: str,
             arch: str | Mapping = 'mf-285m',
             epochs: int | None = None,
             batch_size: int = 64,
             size: int = 128,
             workers: int = 8,
             resume: bool = False,
             seed: int = 0,
             teacher: str | os.PathLike | None = None,
             options: Mapping[str, Any] | None = None) -> str:
    """Pre-train a Mobile-Former on unlabeled images.

    Runs the config for your own images in this process.

    Args:
        images (str | Sequence[str]): Folder, or files and folders.
        out (str): Work folder.
        arch (str | Mapping): See :class:`MobileFormer`. Defaults to
            'mf-285m'.
        epochs (int, optional): Number of epochs. Defaults to 80; with a
            teacher to 40, or up to 80 for few images.
        batch_size (int): Images per step; the learning rate stays as in the
            config. Defaults to 64.
        size (int): Side of the crops in pixels, a multiple of four patches
            (64 for the predefined archs). Defaults to 128.
        workers (int): Processes that load images, at most one per core.
            Defaults to 8.
        resume (bool): Whether to resume the run in ``out``. Defaults to
            False.
        seed (int): Random seed. Defaults to 0.
        teacher (str | PathLike, optional): File of an encoder to distill,
            e.g. written by ``tools/published.py``. Defaults to None, QB-Heat
            with pixels.
        options (Mapping[str, Any], optional): Other settings, e.g.
            ``{'optim_wrapper.optimizer.lr': 1e-3}``.

    Returns:
        str: Path of the last checkpoint, for :func:`load_encoder`.

    Raises:
        UserError: If there are no images, or ``out`` contains another run.

    Examples:
        >>> checkpoint = pretrain('my_images', 'runs/mine', epochs=200)
        >>> encoder = load_encoder(checkpoint)
    """
    out = os.fspath(out)
    before = latest(out)
    if before is not None and not resume:
        raise UserError(f"out='{out}' contains another run ({before}): set "
                        'resume=True, or give another folder')
    lengths = {}
    if epochs is not None:
        lengths = dict.fromkeys(
            ('train_cfg.max_epochs', 'distillation.epochs'), epochs)
    cfg = read_config(find_config(CONFIG), {
        **lengths, **_encoder_settings(arch, size),
        **_data_settings(images, out),
        'train_dataloader.batch_size': batch_size,
        'train_dataloader.num_workers': workers,
        'train_dataloader.dataset.pipeline.0.scale': size,
        'randomness.seed': seed, 'resume': resume, 'work_dir': out,
        'launcher': 'none',
        'teacher': None if teacher is None else os.fspath(teacher),
        **(options or {})})
    RUNNERS.build(cfg).train()
    return latest(out)


def _encoder_settings(arch: str | Mapping, size: int) -> dict[str, Any]:
    """Return the settings that depend on the encoder."""
    arch = arch if isinstance(arch, str) else dict(arch)
    outputs = Outputs.of(MobileFormer(arch))
    patch = outputs.strides[-1]
    if size % (4 * patch):
        raise UserError(f'size={size} must be a multiple of {4 * patch}')
    return {
        'model.backbone.arch': arch if isinstance(arch, str) else dict(
            arch, _delete_=True),
        'model.predictor.in_channels': outputs.channels[-1],
        'model.neck.patch_size': patch, 'model.head.patch_size': patch}


def _data_settings(images: str | Sequence[str], out: str) -> dict[str, Any]:
    """Return settings for a folder, or for a list of files in ``out``."""
    if isinstance(images, str | os.PathLike):
        if osp.isdir(images):
            return {'train_dataloader.dataset.data_root': os.fspath(images)}
        images = [images]
    listed = osp.join(osp.abspath(out), 'images.txt')
    with atomic_write(listed) as part, open(part, 'w', encoding='utf-8',
                                            newline='\n') as file:
        for path in find_images([str(image) for image in images]):
            file.write(f'{osp.abspath(path)}\n')
    return {'train_dataloader.dataset.data_root': '',
            'train_dataloader.dataset.ann_file': listed}
