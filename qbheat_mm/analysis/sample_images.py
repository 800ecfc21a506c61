# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Training samples of a config, from drawn images if there is no data."""
import os.path as osp
import time
from collections.abc import Callable, Mapping
from typing import Any

import cv2
import numpy as np
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.registry import DATASETS, DefaultScope
from mmengine.runner import set_random_seed

from ..errors import UserError
from ..utils.settings import type_name


def find_data(cfg: Config, images: int | None
              ) -> tuple[int, str, Callable[[int], Any] | None]:
    """Count the training images of a config.

    Args:
        cfg (Config): The config.
        images (int, optional): Their number, to look for no data.

    Returns:
        tuple[int, str, Callable | None]: Their number; where it is from;
        and, if the data is there, what loads a sample.

    Raises:
        UserError: If the number is unknown.
    """
    settings = cfg.train_dataloader.dataset
    if images:
        return images, 'as given', None
    root = settings.get('data_root') or ''
    if osp.isdir(osp.expanduser(root)) or not root and not any(
            'ann_file' in key or 'prefix' in key for key in settings):
        with DefaultScope.overwrite_default_scope(cfg.default_scope):
            dataset = DATASETS.build(settings)
        return len(dataset), 'counted', dataset.__getitem__
    if 'ImageNet' in type_name(settings):
        return 1_281_167, 'ImageNet-1K, not on this disk', None
    if 'train2017' in str(settings.get('ann_file')):
        filtered = (settings.get('filter_cfg') or {}).get('filter_empty_gt')
        return (117_266 if filtered else 118_287,
                'COCO train2017, not on this disk', None)
    raise UserError(f"train_dataloader.dataset.data_root='{root}' is not a "
                    'folder: give the number of images with --images N')


def drawn_sample(cfg: Config, folder: str) -> Callable[[int], Any]:
    """What loads drawn JPEG files with the training pipeline of a config.

    Args:
        cfg (Config): The config.
        folder (str): For the files.

    Returns:
        Callable: From the index of an image to a sample: 500x375 pixels for
        mmpretrain, 640x480 with seven objects for mmdet.
    """
    settings = cfg.train_dataloader.dataset
    while 'dataset' in settings:
        settings = settings['dataset']
    detection = cfg.default_scope == 'mmdet'
    size = (640, 480) if detection else (500, 375)
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        pipeline = Compose(settings['pipeline'])

    def load(index: int) -> Any:
        path = osp.join(folder, f'{index}.jpg')
        if not osp.exists(path):
            draw_jpeg(path, *size, seed=index)
        sample = dict(img_path=path, sample_idx=index, gt_label=0)
        if detection:
            sample.update(_objects(index, *size))
        return pipeline(sample)

    return load


def draw_jpeg(path: str, width: int, height: int, seed: int) -> None:
    """Draw noise of all scales; the file is as large as a photograph's."""
    rng = np.random.default_rng(seed)
    image = np.full((height, width, 3), 128, np.float32)
    for side in (2, 4, 8, 16, 32, 64, 128, 256):
        noise = rng.normal(0, 48 / side**.3, (side, side, 3))
        image += cv2.resize(noise.astype(np.float32), (width, height))
    cv2.imwrite(path, image.clip(0, 255).astype(np.uint8),
                [cv2.IMWRITE_JPEG_QUALITY, 90])


def _objects(index: int, width: int, height: int) -> Mapping:
    """Seven objects, as many as an image of COCO has on average."""
    rng = np.random.default_rng(index)
    left, top = rng.uniform(0, .6, (2, 7)) * [[width], [height]]
    right, bottom = left + width * .3, top + height * .3
    corners = np.stack([left, top, right, top, right, bottom, left, bottom], 1)
    return dict(
        img_id=index, height=height, width=width,
        instances=[dict(bbox=box[[0, 1, 4, 5]].tolist(), bbox_label=0,
                        mask=[box.tolist()], ignore_flag=0)
                   for box in corners])


def load_samples(load: Callable[[int], Any], number: int,
                 total: int) -> tuple[list[Any], float]:
    """Load samples twice, and measure the second time, in one thread.

    Args:
        load (Callable): From the index of an image to a sample.
        number (int): Of samples.
        total (int): Images of the data set, from which they are spread.

    Returns:
        tuple[list, float]: The samples and the seconds of one.
    """
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    for _ in range(2):
        set_random_seed(0)
        start = time.perf_counter()
        samples = [load(i * total // number) for i in range(number)]
        seconds = (time.perf_counter() - start) / number
    cv2.setNumThreads(threads)
    return samples, seconds
