# Copyright (c) QB-Heat MM authors. All rights reserved.
"""Compare exported networks with what the toolboxes predict."""
import importlib.util
import re

import numpy as np
import torch

from qbheat_mm.apis import load_heads

from ..helpers.tools import ROOT

HAS_MMDET = importlib.util.find_spec('mmdet') is not None
DETECTORS = ('mf_dec', 'retinanet', 'gfl') if HAS_MMDET else ()
SIZES = [[67, 93], [41, 80]]  # of the images of a batch


def namespace_of_docs(words):
    """Run the block of docs/export.md that contains some words."""
    text = (ROOT / 'docs/export.md').read_text(encoding='utf-8')
    code, = (block for block in re.findall(r'```python\n(.*?)```', text, re.S)
             if words in block)
    namespace = {}
    exec(code, namespace)
    return namespace


def pictures(sizes=SIZES):
    """A batch of RGB images, (B, H, W, 3), with noise in its padding."""
    shape = np.max(sizes, axis=0)
    return np.random.default_rng(0).integers(
        0, 256, (len(sizes), *shape, 3), dtype=np.uint8)


def preprocess(model, batch, sizes=None):
    """Normalize and pad images as the toolbox does.

    Returns:
        tuple: The images, (B, 3, H, W), and mmdet's data samples.
    """
    sizes = sizes or [batch.shape[1:3]] * len(batch)
    images = [torch.from_numpy(image[:h, :w, ::-1].copy()).permute(2, 0, 1)
              for image, (h, w) in zip(batch, sizes)]  # BGR, as mmcv reads
    samples = None
    if type(model.data_preprocessor).__name__ == 'DetDataPreprocessor':
        from mmdet.structures import DetDataSample
        samples = [DetDataSample(metainfo=dict(
            img_shape=tuple(size), ori_shape=tuple(size),
            scale_factor=(1., 1.))) for size in sizes]
    else:
        images = torch.stack(images)
    data = model.data_preprocessor(dict(inputs=images, data_samples=samples))
    return data['inputs'], data['data_samples']


@torch.no_grad()
def check(name, model, outputs):
    """Compare outputs with what the toolbox predicts."""
    outputs = {key: torch.as_tensor(value) for key, value in outputs.items()}
    batch = pictures()
    if name == 'pretrained':
        images, _ = preprocess(model, batch)
        assert list(outputs) == ['features', 'tokens']
        close(outputs['features'], model.extract_feat(images)[0])
        assert outputs['tokens'].shape == (2, 3, 16)
    elif name in ('retinanet', 'gfl'):
        images, samples = preprocess(model, batch, SIZES)
        compare_detections(model, images, samples, outputs)
    else:
        images, samples = preprocess(model, batch, SIZES)
        found = model.predict(images, samples, rescale=False)
        scores, labels = outputs['logits'].softmax(-1)[..., :-1].max(-1)
        for i, sample in enumerate(found):
            best, order = scores[i].topk(len(scores[i]))
            found_i = sample.pred_instances
            close(best, found_i.scores)
            assert torch.equal(labels[i][order], found_i.labels)
            close(outputs['boxes'][i][order], found_i.bboxes)


def compare_detections(model, images, samples, outputs):
    """What docs/export.md makes of RetinaNet's outputs, and mmdet."""
    outputs = {key: value.numpy() for key, value in outputs.items()}
    detect = namespace_of_docs('def keep_best(')['keep_best']
    for i, sample in enumerate(model.predict(images, samples, rescale=False)):
        boxes, scores, labels = detect(
            outputs['scores'][i], outputs['boxes'][i], outputs['levels'],
            nms_pre=20, max_per_img=10)
        wanted = sample.pred_instances
        assert len(wanted) == 10
        close(torch.from_numpy(scores), wanted.scores)
        close(torch.from_numpy(boxes), wanted.bboxes)
        assert labels.tolist() == wanted.labels.tolist()


def close(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)


def load_runs(runs, *names):
    return load_heads({name: runs[name][1:3] for name in names})
