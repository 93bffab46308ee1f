"""PyTorch operators over extents of 0 compute what torch does."""

from __future__ import annotations

from typing import Any

import pytest

import autosched as asd
from autosched.torch_frontend.tensors import to_torch
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
modules = lazily("tests.support.torch_modules")
functional = lazily("torch.nn.functional")
pytestmark = pytest.mark.usefixtures("torchlib")


def _check(function: Any, *args: Any) -> None:
    network = asd.from_torch(modules.Function(function), args)
    names = [value.name for value in network.inputs]
    results = asd.compile(network, effort="none").run(dict(zip(names, args, strict=False)))
    expected = function(*args)
    for ours, theirs in zip(results.values(), expected, strict=True):
        torch.testing.assert_close(to_torch(ours), theirs, rtol=1e-5, atol=1e-6)


def test_of_nothing_none_is_true_and_all_are() -> None:
    def truths(x: Any) -> Any:
        above = x > 0
        return (
            above.any(1),
            above.any(-1, keepdim=True),
            above.any(),
            above.any((0, 1)),
            above.any((1,), keepdim=True),
            above.to(torch.uint8).any(1),
            above.all(1),
            x + 1,
        )

    _check(truths, torch.zeros(2, 0))


def test_of_the_rows_behind_the_last_one_none_is_true() -> None:
    _check(lambda x: ((x[x.shape[0] :] > 0).any(0), (x > 0).any(0)), torch.randn(3, 4))


def test_any_over_several_dimensions() -> None:
    x = torch.randn(3, 4, 5) - 1.2
    _check(lambda x: ((x > 0).any((0, 2)), (x > 0).any((0, 1), keepdim=True), x.msort()), x)


def test_attention_to_no_keys_is_zero() -> None:
    def attention(x: Any) -> Any:
        q, k, v = x
        attend = functional.scaled_dot_product_attention
        none, mask = slice(0), torch.zeros(5, 0)
        return (
            attend(q, k[:, :, none], v[:, :, none]),
            attend(q, k[:, :, none], v[:, :, none], mask),
            attend(q[:, :, none], k, v),
            attend(q, k, v),
        )

    _check(attention, torch.randn(3, 2, 3, 5, 4))
