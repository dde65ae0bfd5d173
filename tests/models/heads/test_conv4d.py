"""4D convolution against a naive loop, its gradients, its memory bound."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from simsc.models.heads.ncnet import Conv4d, conv4d, rows_per_group


def naive_conv4d(inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The definition: one sum per output, over the padded neighbourhood."""
    half = weight.shape[2] // 2
    padded = F.pad(inputs, (half,) * 8)
    outputs = inputs.new_zeros(inputs.shape[0], weight.shape[0], *inputs.shape[2:])
    k = weight.shape[2]
    for p, q, r, s in itertools.product(*(range(side) for side in inputs.shape[2:])):
        window = padded[:, :, p : p + k, q : q + k, r : r + k, s : s + k]
        outputs[:, :, p, q, r, s] = torch.einsum("bcijkl,ocijkl->bo", window, weight)
    return outputs + bias.view(1, -1, 1, 1, 1, 1)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("inputs", "outputs"), [(1, 3), (3, 2), (2, 1)])
@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("size", [(3, 4, 2, 5), (1, 2, 3, 1)])
def test_equals_the_definition(inputs, outputs, kernel, size):
    values = random(2, inputs, *size)
    weight, bias = random(outputs, inputs, *[kernel] * 4, seed=1), random(outputs, seed=2)
    torch.testing.assert_close(conv4d(values, weight, bias), naive_conv4d(values, weight, bias))


def test_a_bound_on_memory_changes_neither_values_nor_gradients():
    values, weight = random(2, 2, 5, 3, 4, 3).requires_grad_(), random(3, 2, 3, 3, 3, 3, seed=1).requires_grad_()
    results = []
    for limit in (10**9, 1500, 1):
        output = conv4d(values, weight, limit=limit)
        results.append((output, *torch.autograd.grad(output.square().sum(), (values, weight))))
    assert rows_per_group(values.shape, weight.shape, 1500) == 1
    assert rows_per_group(values.shape, weight.shape, 3000) == 2
    for bounded in results[1:]:
        for expected, got in zip(results[0], bounded, strict=True):
            torch.testing.assert_close(got, expected)


def test_gradients():
    values, weight = random(1, 2, 2, 3, 3, 2).requires_grad_(), random(2, 2, 3, 3, 3, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(conv4d, (values, weight))


def test_swapped_is_the_convolution_of_the_transposed_tensor():
    layer = Conv4d(2, 3, kernel=3).double()
    torch.nn.init.normal_(layer.weight)
    values = random(1, 2, 3, 4, 5, 2)
    transposed = values.permute(0, 1, 4, 5, 2, 3)
    torch.testing.assert_close(layer(values, swapped=True), layer(transposed).permute(0, 1, 4, 5, 2, 3))


def test_translation_moves_the_result_away_from_the_border():
    values = F.pad(random(1, 1, 3, 3, 3, 3), (3,) * 8)
    weight = random(1, 1, 3, 3, 3, 3, seed=1)
    moved = values.roll((1, -1, 1, 1), dims=(2, 3, 4, 5))
    expected = conv4d(values, weight).roll((1, -1, 1, 1), dims=(2, 3, 4, 5))
    torch.testing.assert_close(conv4d(moved, weight), expected)


def test_a_new_stack_hands_on_its_input():
    torch.manual_seed(0)
    values = random(1, 1, 6, 6, 6, 6).abs().float()
    output = F.relu(Conv4d(4, 1, 3)(F.relu(Conv4d(1, 4, 3)(values))))
    assert torch.corrcoef(torch.stack([values.flatten(), output.flatten()]))[0, 1] > 0.9
