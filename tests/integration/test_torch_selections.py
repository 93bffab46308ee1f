"""Rows that masks select, of modules whose results have shapes that are known."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import autosched as asd
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
dynamo = lazily("torch._dynamo")
selections = lazily("tests.support.torch_selections")
backend_module = lazily("autosched.torch_frontend.backend")
pytestmark = pytest.mark.usefixtures("torchlib")
GRAPHS = ("GraphConvolution", "GraphAttention", "GraphMaximum")
# Those that are compared with torch where a mask selects nothing; of the others torch raises.
SELECTIONS = (
    "all", "any", "changed within", "copied", "elements", "last of equal", "masked_select",
    "matrix", "mean", "mean of 16 bits", "mean of all", "pairs", "products", "put back", "softmax",
    "square", "two steps", "whole numbers",
)  # fmt: skip


def _compiled(module: Any, *args: Any) -> asd.Module:
    network = asd.from_torch(module, args)
    assert not any(node.op.on_host for node in network.graph.nodes)
    return asd.compile(network, threads=1, effort="none")


def _check(compiled: asd.Module, module: Any, *args: Any) -> None:
    names = [value.name for value in compiled.inputs]
    feeds = {n: arg.numpy() for n, arg in zip(names, args, strict=True)}
    (found,) = compiled.run(feeds).values()
    with torch.no_grad():
        wanted = module(*args)
    np.testing.assert_allclose(found, wanted.numpy(), rtol=2e-5, atol=2e-6)


def _edges(generator: Any, kind: int) -> Any:
    """Random ones, with self loops or without; loops alone; edges that nobody keeps."""
    rows, nodes = selections.ROWS, selections.NODES
    edges = torch.randint(0, nodes, (2, rows), generator=generator)
    if kind == 1:
        edges[1] = (edges[0] + 1 + edges[1] % (nodes - 1)) % nodes
    elif kind == 2:
        edges[1] = edges[0]
    elif kind == 3:
        edges = edges.sort(0, descending=True).values
    return edges


@pytest.mark.parametrize("name", GRAPHS)
def test_graph_networks_are_kernels(name: str, caplog: pytest.LogCaptureFixture) -> None:
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    module = getattr(selections, name)().eval()
    extra = [torch.rand(selections.ROWS)] if name == "GraphAttention" else []
    x = torch.randn(selections.NODES, selections.WIDTH)
    with caplog.at_level(logging.DEBUG, "autosched.torch"):
        compiled = _compiled(module, x, _edges(generator, 0), *extra)
    assert "through ONNX" not in caplog.text
    for number in range(20):
        edges = _edges(generator, number % 4)
        for values in extra:  # of edges that are not kept
            values[edges[0] == edges[1]] = (torch.nan, torch.inf, 1.0)[number % 3]
        _check(compiled, module, x, edges, *extra)


@pytest.mark.parametrize("name", SELECTIONS)
def test_selections_are_kernels(name: str) -> None:
    generator = torch.Generator().manual_seed(1)
    module = selections.Selection(selections.SELECTIONS[name])
    shape = selections.ROWS, selections.WIDTH
    every = torch.ones(selections.ROWS, dtype=torch.bool)
    compiled = _compiled(module, torch.randn(shape), every)
    for number in range(12):
        x = torch.randn(shape, generator=generator)
        mask = torch.rand(selections.ROWS, generator=generator) < (0.5, 1.1, -1, 0.1)[number % 4]
        x[~mask] = (1.0, torch.nan, torch.inf)[number % 3]
        _check(compiled, module, x, mask)


def test_every_selection_is_tested() -> None:
    assert sorted(SELECTIONS) == sorted(selections.SELECTIONS)


def test_indices_that_are_left_out_may_be_anything() -> None:
    class Sum(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def forward(self, x: Any, places: Any) -> Any:
            kept = places[places >= 0]
            return torch.zeros(4, 3).index_add(0, kept % 4, x[kept])

    x, places = torch.randn(6, 3), torch.tensor([0, -1, 5, -(2**40), 5, -2, 3])
    _check(_compiled(Sum(), x, places), Sum(), x, places)


def test_graphs_of_torch_compile(caplog: pytest.LogCaptureFixture) -> None:
    module = selections.GraphConvolution().eval()
    x = torch.randn(selections.NODES, selections.WIDTH)
    edges = _edges(torch.Generator().manual_seed(2), 0)
    options = {"cache": False}
    with (
        dynamo.config.patch(capture_dynamic_output_shape_ops=True),
        torch.no_grad(),
        caplog.at_level(logging.INFO, "autosched.torch"),
    ):
        compiled = torch.compile(module, backend=backend_module.backend, options=options)
        torch.testing.assert_close(compiled(x, edges), module(x, edges))
    assert caplog.text.count("kernels, 0 on the host") == 1


def test_known_masks_select_at_once() -> None:
    mask = torch.arange(selections.ROWS) % 3 == 0

    class Known(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def forward(self, x: Any) -> Any:
            return x[mask.nonzero()[:, 0]].sum(0)

    x = torch.randn(selections.ROWS, selections.WIDTH)
    compiled = _compiled(Known(), x)
    _check(compiled, Known(), x)


def test_a_length_that_is_asked_for_stays_on_the_host() -> None:
    module = selections.Selection(selections.REFUSED["length"][0])
    x, mask = torch.randn(selections.ROWS, selections.WIDTH), torch.arange(selections.ROWS) % 2 == 0
    network = asd.from_torch(module, (x, mask))
    assert any(node.op.on_host for node in network.graph.nodes)
    _check(asd.compile(network, threads=1, effort="none"), module, x, mask)
