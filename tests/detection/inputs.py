# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Small settings, and features and samples to detect in."""
import torch
from mmdet.structures import DetDataSample
from mmengine.structures import InstanceData

CLASSES = ('disc', 'square', 'ring')

#: A Mobile-Former of four stages that costs nothing.
TINY_ARCH = dict(
    stem=8,
    tokens=(3, 16),
    stages=[[('lite', 8, 8)], [('lite-down', 16, 8)],
            [('mf-down', 16, 16)], [('mf-down', 32, 16), ('mf', 32, 16)]],
    conv=32)
#: A small MF-Dec on it.
TINY_DECODER = dict(in_channels=(16, 32), num_queries=9, embed_dims=32,
                    num_heads=4, mobile_mlp_dims=64, former_mlp_dims=64)


def make_samples(image_sizes, boxes=(1, ), batch_shape=None):
    """Data samples of images with ``boxes[i]`` random boxes each.

    Returns:
        tuple: A batch of empty images and the list of data samples.
    """
    torch.manual_seed(1)
    if batch_shape is None:
        batch_shape = tuple(max(side) for side in zip(*image_sizes))
    samples = []
    for i, (height, width) in enumerate(image_sizes):
        num = boxes[i % len(boxes)]
        sample = DetDataSample(metainfo=dict(
            img_shape=(height, width), ori_shape=(height, width),
            batch_input_shape=batch_shape, scale_factor=(1., 1.)))
        corners = torch.rand(num, 2, 2).sort(1).values
        sides = torch.tensor([width, height])
        sample.gt_instances = InstanceData(
            bboxes=(corners * sides).flatten(1),
            labels=torch.randint(3, (num, )))
        samples.append(sample)
    return torch.zeros(len(samples), 3, *batch_shape), samples


def make_feats(image_sizes, batch_shape=None, channels=(6, 10), filler=0.):
    """Maps at 1/8 and 1/16: random content, ``filler`` in the padding."""
    if batch_shape is None:
        batch_shape = tuple(max(side) for side in zip(*image_sizes))
    feats = []
    for width, stride in zip(channels, (8, 16)):
        shape = [-(-side // stride) for side in batch_shape]
        feat = torch.full((len(image_sizes), width, *shape), filler)
        for i, size in enumerate(image_sizes):
            h, w = (-(-side // stride) for side in size)
            generator = torch.Generator().manual_seed(100 * i + stride)
            feat[i, :, :h, :w] = torch.randn(width, h, w, generator=generator)
        feats.append(feat)
    return tuple(feats)
