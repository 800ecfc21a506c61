# Copyright (c) QB-Heat MM authors. All rights reserved.
"""What can be known of training on GPUs without one.

Fake tensors have a device and a type but no values: a forward pass shows
tensors left on the CPU and products in float32.
"""
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from qbheat_mm.models.selfsup.quarters import sample_positions

from .helpers.tools import ROOT, import_tool

model_size = import_tool('analysis/model_size.py')
FAMILIES = [
    'qbheat/qbheat_mf-285m_8xb128-amp-coslr-100e_in1k.py',
    'qbheat/benchmarks/mf-285m_8xb512-tran1-coslr-200e_in1k.py',
    'mobile_former/mf-26m_8xb128-coslr-450e_in1k.py',
    'qbheat/coco/retinanet_mf-285m_fpn_frozen_8xb2-1x_coco.py',
    'qbheat/coco/fcos_mf-285m_fpn_frozen_8xb2-1x_coco.py',
    'qbheat/coco/mask-rcnn_mf-285m_fpn_frozen_8xb2-1x_coco.py',
    'qbheat/coco/mf-dec-211_mf-285m_frozen_8xb2-500e_coco.py']
# The tokens of two images, in four heads, stay in float32.
TOKENS = 2 * 6 * 4
PRODUCTS = {'convolution', 'mm', 'addmm', 'bmm', 'baddbmm'}


class Products(TorchDispatchMode):
    """Collects the types and devices of the operands of matrix products."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in PRODUCTS:
            kinds = {(t.dtype, t.device.type) for t in args
                     if isinstance(t, Tensor)}
            if out.shape[:-1].numel() <= TOKENS:
                kinds -= {(torch.float32, 'cuda')}
            self.found |= kinds
        return out


def to_fake_gpu(model, mode):
    """Replace the tensors of a model on the meta device."""
    for module in model.modules():
        for name, tensor in module.named_parameters(recurse=False):
            fake = FakeTensor(mode, tensor.detach().to('meta'), 'cuda')
            module.register_parameter(
                name, nn.Parameter(fake, tensor.requires_grad))
        for name, tensor in module.named_buffers(recurse=False):
            module._buffers[name] = FakeTensor(mode, tensor.to('meta'), 'cuda')


def run(model, images):
    """The forward pass of training, up to what reads values."""
    if hasattr(model, 'predictor'):
        masked = torch.zeros(2, 48, dtype=torch.int64, device='cuda')
        pred = model.predict_pixels(
            images, sample_positions(2, 'center'), masked)
        return pred, model.head.loss(pred, images, masked_ids=masked)
    if hasattr(model, 'bbox_head') or hasattr(model, 'roi_head'):
        return model_size.DetectionHead(model)(*model.backbone(images))
    return model(images, mode='tensor')


@pytest.fixture
def half_precision():
    """Mixed precision of GPUs; torch.autocast wants one."""
    before = (torch.is_autocast_enabled('cuda'),
              torch.get_autocast_dtype('cuda'),
              torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed())

    def switch(enabled, dtype, half_attention):
        torch.set_autocast_enabled('cuda', enabled)
        torch.set_autocast_dtype('cuda', dtype)
        # Fake tensors take the plain kernel, which would use float32.
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(half_attention)

    switch(True, torch.float16, True)
    yield
    switch(*before)
    torch.clear_autocast_cache()


@pytest.mark.parametrize('name', FAMILIES)
def test_the_forward_pass_is_on_the_gpu_in_half_precision(
        name, half_precision):
    if '/coco/' in name:
        pytest.importorskip('mmdet')
        import qbheat_mm.detection  # noqa: F401
    model = model_size.build_without_memory(
        Config.fromfile(ROOT / 'configs' / name)).train()
    mode = FakeTensorMode()
    to_fake_gpu(model, mode)
    with mode, Products() as products:
        outs = tree_leaves(run(
            model, torch.empty(2, 3, 128, 128, device='cuda')))
    assert products.found == {(torch.float16, 'cuda')}
    assert {out.device.type for out in outs} == {'cuda'}
    if hasattr(model, 'predictor'):
        assert [out.dtype for out in outs] == [torch.float16, torch.float32]
    assert all(m.running_var.dtype == torch.float32 for m in model.modules()
               if isinstance(m, nn.BatchNorm2d))


def test_gradients_in_float16_are_those_of_float32():
    cfg = Config.fromfile(
        ROOT / 'projects/drawn_world/configs/qbheat_mf-demo_pretrain.py')
    torch.manual_seed(0)
    model = MODELS.build(cfg.model)
    model.init_weights()
    images = torch.randn(8, 3, 128, 128)
    gradients = []
    for enabled in (False, True):
        torch.manual_seed(0)  # the position of the quarters
        model.zero_grad()
        with torch.autocast('cpu', torch.float16, enabled=enabled):
            loss = model(images, None, mode='loss')['loss']
        (1024 * loss).backward()
        gradients.append(torch.cat([
            p.grad.flatten() for p in model.parameters()]) / 1024)
    exact, half = gradients
    assert half.isfinite().all()
    assert torch.cosine_similarity(exact, half, dim=0) > 0.99
