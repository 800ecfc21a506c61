# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Crops on the GPU, and what a teacher is told of them."""
import torch

from projects.real_images.many_images import SIZE, View
from qbheat_mm.teacher.targets import Crops


def test_crops_lie_where_the_teacher_is_told():
    torch.manual_seed(0)
    line = torch.linspace(0, 252, 64)
    images = torch.stack([line.expand(64, 64), line[:, None].expand(64, 64),
                          torch.zeros(64, 64)])
    view = View.of(images.expand(16, -1, -1, -1).to(torch.uint8))
    assert view.pixels.shape == (16, 3, SIZE, SIZE)
    assert len(set(view.flips.tolist())) == 2
    flips = torch.stack([view.flips, torch.zeros_like(view.flips)], 1)
    expected = Crops([images.expand(16, -1, -1, -1)], view.boxes,
                     flips).sample((8, 8))
    seen = torch.nn.functional.avg_pool2d(view.pixels, SIZE // 8)
    torch.testing.assert_close(seen, expected, atol=2, rtol=0)
    sample = view.samples(torch.arange(16))[3]
    assert sample.sample_idx == 3
    left, top, right, bottom = view.boxes[3].tolist()
    if view.flips[3]:
        left, right = right, left
    assert sample.crop_box == (left, top, right, bottom)
