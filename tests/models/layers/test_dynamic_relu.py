"""DY-ReLU: the activation, its gradients and its coefficients."""
import pytest
import torch

from qbheat_mm.models.layers import DynamicReLU, DynamicReLUCoefficients


@pytest.mark.parametrize('with_gradients', [True, False])
@pytest.mark.parametrize('dtype', [
    torch.float32, torch.bfloat16, torch.float16])
def test_is_the_larger_of_two_lines(dtype, with_gradients):
    """Also at the largest values of half precision."""
    x, slopes = torch.randn(2, 3, 4, 5).to(dtype), torch.rand(2, 6)
    if dtype != torch.float32:
        x[..., 0] *= torch.finfo(dtype).max / 4
    slopes[:, 3:] -= 0.5
    slopes[0] = torch.tensor([0., 0., 1., -1., 0., -1.])  # the ends
    first, second = slopes.to(dtype)[..., None, None].chunk(2, dim=1)
    expected = torch.maximum(first * x, second * x)
    with torch.set_grad_enabled(with_gradients):
        found = DynamicReLU()(x, first.float(), second.float())
    assert expected.isfinite().all() and found.dtype == dtype
    torch.testing.assert_close(found, expected)


def test_gradients_are_those_of_the_function():
    x = torch.randn(2, 3, 2, 2, dtype=torch.double, requires_grad=True)
    first, second = torch.randn(
        2, 2, 3, 1, 1, dtype=torch.double, requires_grad=True).unbind()
    assert torch.autograd.gradcheck(DynamicReLU(), (x, first, second))
    assert torch.autograd.gradgradcheck(DynamicReLU(), (x, first, second))


def test_slopes_are_their_formula():
    coefficients = DynamicReLUCoefficients(8, (3, 5))
    for parameter in coefficients.parameters():
        torch.nn.init.normal_(parameter)
    tokens = 2 * torch.randn(4, 6, 8)
    hidden = coefficients.squeeze(tokens[:, 0]).clamp(min=0)
    assert hidden.shape == (4, 2 * 8 // 4)
    slopes = coefficients(tokens)
    for i in range(2):
        layer = coefficients.expand[i]
        out = layer(hidden[:, 2 * i:2 * i + 2])
        gates = (out + 3).clamp(0, 6) / 6
        channels = gates.shape[1] // 2
        first, second = slopes[2 * i].squeeze(), slopes[2 * i + 1].squeeze()
        torch.testing.assert_close(first, 2 * gates[:, :channels])
        torch.testing.assert_close(second, 2 * gates[:, channels:] - 1)
