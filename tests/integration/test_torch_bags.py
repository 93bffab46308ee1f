"""Sums, means and maxima over rows of tables, with kernels for all that torch takes."""

from __future__ import annotations

from typing import Any

import pytest

import autosched as asd
from tests.support.lazily import lazily

torch = lazily("torch")
pytestmark = pytest.mark.usefixtures("torchlib")
MODES = ("sum", "mean", "max")


def _assert_kernels_compute(layer: Any, *inputs: Any) -> None:
    """A fresh layer: its table has gradients, which is another operator of torch's."""
    network = asd.from_torch(layer.eval(), inputs)
    assert not any(node.op.on_host for node in network.graph.nodes)
    module = asd.compile(network, threads=1, effort="none")
    given = {value.name: x.numpy() for value, x in zip(network.inputs, inputs, strict=True)}
    (ours,) = module.run(given).values()
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(ours), layer(*inputs))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("trained", [False, True])
def test_bags_of_equal_size(mode: str, trained: bool) -> None:
    layer = torch.nn.EmbeddingBag(20, 8, mode=mode).requires_grad_(trained)
    _assert_kernels_compute(layer, torch.randint(0, 20, (5, 3)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("trained", [False, True])
def test_sizes_that_are_data(mode: str, trained: bool) -> None:
    """One bag is empty in the middle, and one at the end."""
    layer = torch.nn.EmbeddingBag(20, 8, mode=mode).requires_grad_(trained)
    _assert_kernels_compute(layer, torch.randint(0, 20, (9,)), torch.tensor([0, 4, 4, 9]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padding", [1, -19])
def test_a_row_that_counts_for_nothing(mode: str, padding: int) -> None:
    """It is all of one bag, and all but one row of another."""
    layer = torch.nn.EmbeddingBag(20, 8, mode=mode, padding_idx=padding)
    layer.weight.data[1] = 7
    _assert_kernels_compute(layer, torch.tensor([[1, 1, 1], [1, 5, 1], [2, 3, 4]]))


def test_the_end_of_the_last_bag() -> None:
    layer = torch.nn.EmbeddingBag(20, 8, mode="sum", include_last_offset=True)
    _assert_kernels_compute(layer, torch.randint(0, 20, (9,)), torch.tensor([0, 2, 2, 9]))


def test_indices_after_the_last_bag_are_of_none() -> None:
    layer = torch.nn.EmbeddingBag(20, 8, mode="sum", include_last_offset=True)
    _assert_kernels_compute(layer, torch.randint(0, 20, (9,)), torch.tensor([0, 2, 2, 7]))


def test_factors_of_rows() -> None:
    layer = torch.nn.EmbeddingBag(20, 8, mode="sum", padding_idx=1)
    _assert_kernels_compute(
        layer, torch.randint(0, 4, (9,)), torch.tensor([0, 2, 5]), torch.rand(9)
    )
