"""``torch.compile``: graphs traced with open shapes, that return sizes next to tensors."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import autosched
from autosched.graph.errors import ModelImportError
from autosched.torch_frontend.number_results import check_numbers
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
backend_module = lazily("autosched.torch_frontend.backend")
pytestmark = pytest.mark.usefixtures("torchlib")


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def sizes_alone(x: Any) -> Any:
    return x.shape[0] * 2


def size_of_a_new_tensor(x: Any) -> Any:
    y, n = torch.tanh(x), x.shape[0]
    return y.new_zeros(n, n + 1) + y.sum(), n + 1


def size_over_a_break(x: Any) -> Any:
    y = torch.tanh(x)
    n = y.shape[0] * 2
    torch._dynamo.graph_break()
    return y.reshape(n, 4) + n, n / 2


def size_of_what_was_found(x: Any) -> Any:
    return torch.tanh(x).nonzero().shape[0]


def sum_as_a_number(x: Any) -> Any:
    return x.sum().item() * 2


FUNCTIONS = (
    sizes_alone, size_of_a_new_tensor, size_over_a_break, size_of_what_was_found, sum_as_a_number,
)  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_sizes_are_those_of_torch(
    function: Callable[[Any], Any], caplog: pytest.LogCaptureFixture
) -> None:
    compiled = torch.compile(
        function, backend=backend_module.backend, options={"cache": False}, dynamic=True
    )
    with torch.no_grad(), caplog.at_level(logging.WARNING, "autosched.torch"):
        for rows in (2, 5, 3, 5):
            x = torch.arange(8.0 * rows).reshape(rows, 8) / 16
            ours, theirs = compiled(x), function(x)
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert not [r for r in caplog.records if r.name == "autosched.torch"]


def test_a_number_that_depends_on_the_data_is_refused() -> None:
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    shapes = ShapeEnv()
    found = SimpleNamespace(op="call_function", meta={"val": shapes.create_unbacked_symint()})
    with pytest.raises(ModelImportError, match="output 1 is a number that depends on the data"):
        check_numbers([3, found])


def test_a_window_at_a_position_that_is_an_input() -> None:
    class Window(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, position: Any) -> Any:
            start = position.item()
            torch._check(start >= 0)
            torch._check(start + 3 <= x.shape[0])
            return x.narrow(0, start, 3) * 2

    x = torch.randn(8, 6)
    network = autosched.from_torch(Window(), (x, torch.tensor(2)))
    module = autosched.compile(network, effort="none")
    assert network.outputs[0].shape == (3, 6)
    for start in (0, 2, 5):
        given = dict(zip((v.name for v in network.inputs), (x, torch.tensor(start)), strict=True))
        (found,) = module.run(given).values()
        torch.testing.assert_close(torch.from_numpy(found), x[start : start + 3] * 2)


def test_a_graph_that_records_gradients_is_named(caplog: pytest.LogCaptureFixture) -> None:
    module = torch.nn.Linear(4, 4)
    compiled = torch.compile(module, backend=backend_module.backend)
    with caplog.at_level(logging.WARNING, "autosched.torch"):
        for _ in range(2):
            compiled(torch.ones(2, 4)).sum().backward()
    (record,) = [r for r in caplog.records if r.name == "autosched.torch"]
    assert "stays with torch: it records gradients, which torch.no_grad() prevents" in (
        record.getMessage()
    )


@pytest.mark.parametrize(
    ("option", "hint"),
    [("quick", 'options={"effort": "quick"}'), ("dynamic", "torch.compile(..., dynamic=True)")],
)
def test_what_is_said_elsewhere_is_told(option: str, hint: str) -> None:
    compiled = torch.compile(
        torch.nn.ReLU(), backend=backend_module.backend, options={option: True}
    )
    with pytest.raises(Exception, match=f"option '{option}' is unknown") as caught:
        compiled(torch.ones(2))
    assert hint in str(caught.value)
