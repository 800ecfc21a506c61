# Copyright (c) QB-Heat MM authors. All rights reserved.
"""JPEG files, decoded by the GPU."""
import io

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_image

from qbheat_mm.datasets.decoding import jpeg_decoder, why_not_on

from .conftest import DEVICE


@pytest.mark.parametrize('subsampling', [0, 2])
@pytest.mark.parametrize('progressive', [False, True])
def test_photographs_are_those_of_the_cpu(subsampling, progressive):
    """Decoders differ in how they enlarge the colours."""
    assert DEVICE == 'cpu' or why_not_on(DEVICE) is None
    files = []
    for name in ('china.jpg', 'flower.jpg'):
        file = io.BytesIO()
        Image.fromarray(load_sample_image(name)).save(
            file, 'JPEG', quality=90, subsampling=subsampling,
            progressive=progressive)
        files.append(torch.from_numpy(
            np.frombuffer(file.getvalue(), np.uint8).copy()))
    found = jpeg_decoder()(files, device=DEVICE)
    expected = jpeg_decoder()(files, device='cpu')
    for image, reference in zip(found, expected, strict=True):
        assert image.device.type == DEVICE
        difference = image.cpu().float() - reference
        assert difference.abs().mean() <= 1.5
