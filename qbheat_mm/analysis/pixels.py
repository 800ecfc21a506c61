# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Between pictures and the normalized pixels of a model."""
import numpy as np
import torch
from torch import Tensor, nn


class PixelSpace:
    """What a model's data preprocessor does, and the way back.

    Args:
        preprocessor (nn.Module): An ``ImgDataPreprocessor`` of mmengine or
            one of mmpretrain's.
    """

    def __init__(self, preprocessor: nn.Module) -> None:
        self.preprocessor = preprocessor
        # Which attribute says whether channels are reversed differs between
        # the preprocessors; a red picture tells it of all of them.
        red = torch.zeros(1, 3, 2, 2, dtype=torch.uint8)
        red[:, 2] = 255
        first, _, last = self.normalize(red)[0, :, 0, 0].tolist()
        self.model_is_rgb = first > last

    def normalize(self, images: Tensor) -> Tensor:
        """From BGR pictures (B, 3, H, W), 0 to 255, to the model's input."""
        data = dict(inputs=images, data_samples=None)
        return self.preprocessor(data, False)['inputs']

    def picture(self, images: Tensor) -> np.ndarray:
        """From the model's pixels to RGB pictures.

        Args:
            images (Tensor): Normalized, (B, 3, H, W).

        Returns:
            np.ndarray: (B, H, W, 3), uint8.
        """
        mean = getattr(self.preprocessor, 'mean', None)
        if mean is not None:
            images = images * self.preprocessor.std + mean
        if not self.model_is_rgb:
            images = images.flip(1)
        pixels = images.clamp(0, 255).round().to(torch.uint8)
        return pixels.permute(0, 2, 3, 1).cpu().numpy()
