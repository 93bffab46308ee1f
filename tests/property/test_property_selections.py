"""Random functions of rows that masks select: with all rows they are what torch computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched.torch_frontend.all_rows import network_with_all_rows
from autosched.torch_frontend.aten import call_of_program
from tests.support.aten_networks import reference
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
selections = lazily("tests.support.torch_selections")
pytestmark = pytest.mark.usefixtures("torchlib")
ROWS, WIDTH, NODES = 13, 4, 6
Steps = list[Callable[[Any], Any]]


def _steps() -> Steps:
    """Functions of rows ``[n, WIDTH]`` whose results have that shape."""
    table = torch.linspace(-1, 1, 12 * WIDTH).view(12, WIDTH)
    return [
        lambda y: y.exp().clamp(max=3),
        lambda y: y * table[0] + 1,
        lambda y: y - y.amax(1, keepdim=True),
        lambda y: y.softmax(1),
        lambda y: y @ table[:WIDTH],
        lambda y: table[_numbers(y) - 4],
        lambda y: y.t().flip(0).t(),
        lambda y: y.view(-1, 2, 2).transpose(1, 2).reshape(-1, WIDTH),
        lambda y: torch.cat([y[:, 1:], y[:, :1]], 1),
        lambda y: torch.cat([y, table]),
        lambda y: torch.cat([table[:5], y]),
        lambda y: y[y[:, 1] > 0],
        lambda y: y[(y < 2).all(1)],
        lambda y: y.masked_fill(y > 1, 0.5),
        lambda y: torch.stack([y, y * 2], 1).sum(1),
        lambda y: y + torch.ones(y.shape[0], 1),
        lambda y: torch.where(y > 0, y, y.new_zeros(y.shape[0], WIDTH)),
    ]


def _numbers(y: Any) -> Any:
    """From 0 to 15."""
    return ((y > 0).to(torch.int32) * torch.tensor([1, 2, 4, 8])).sum(1)


def _places(y: Any) -> Any:
    return _numbers(y).clamp(max=NODES - 1)


def _ends() -> Steps:
    """Functions of such rows whose results have shapes that are known."""
    zeros, table = torch.zeros(NODES, WIDTH), torch.linspace(-1, 1, NODES * WIDTH).view(NODES, -1)
    return [
        lambda y: y.sum(0),
        lambda y: (y.mean(), (y > 0).any(), (y > 0).all(0)),
        lambda y: y.softmax(0).square().sum(),
        lambda y: y.clamp(-2, 2).prod(0),
        lambda y: zeros.index_add(0, _places(y), y),
        lambda y: table.index_put((_places(y),), y),
        lambda y: torch.zeros(3, 2, WIDTH).index_put(
            (_places(y).clamp(max=2), _places(y).clamp(max=1)), y
        ),
        lambda y: table.scatter_reduce(
            0, _places(y).view(-1, 1).expand(-1, WIDTH), y, "amax", include_self=False
        ),
        lambda y: zeros.scatter_add(0, _places(y).view(-1, 1).expand(-1, WIDTH), y),
        lambda y: table.scatter_reduce(
            0, _places(y).view(-1, 1).expand(-1, WIDTH), y, "mean", include_self=True
        ),
    ]


def _function(seed: int) -> Callable[[Any, Any], Any]:
    rng = np.random.default_rng(seed)
    steps, ends = _steps(), _ends()
    chosen = [steps[n] for n in rng.integers(len(steps), size=rng.integers(1, 5))]
    end = ends[seed % len(ends)]

    def function(x: Any, mask: Any) -> Any:
        rows = x[mask]
        for step in chosen:
            rows = step(rows)
        return end(rows)

    return function


@pytest.mark.parametrize("seed", range(20))
def test_random_functions_of_selected_rows(seed: int) -> None:
    function = _function(seed)
    generator = torch.Generator().manual_seed(seed)
    x, mask = torch.randn(ROWS, WIDTH), torch.ones(ROWS, dtype=torch.bool)
    with torch.no_grad():
        program = torch.export.export(selections.Selection(function), (x, mask))
        call = call_of_program(program.run_decompositions({}))
    outputs = list(call.outputs)
    network = network_with_all_rows(call.graph, call.args, call.static, outputs)
    for number in range(8):
        x = torch.randn(ROWS, WIDTH, generator=generator)
        mask = torch.rand(ROWS, generator=generator) < (0.5, 1.1, -1, 0.2)[number % 4]
        x[~mask] = (torch.nan, 1e30, torch.inf, 0.0)[number // 2]
        wanted = function(x, mask)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        found = zip(reference(network, (x, mask)), wanted, strict=True)
        found = tuple(own.to(theirs.dtype) for own, theirs in found)
        torch.testing.assert_close(found, wanted, rtol=2e-5, atol=2e-5, equal_nan=True)
