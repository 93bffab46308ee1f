"""Networks that came from PyTorch or ONNX compute the same when they are exported."""

from __future__ import annotations

from typing import Any, Final

import pytest

from autosched import zoo
from autosched.graph.errors import GraphError
from autosched.graph.ops.elementwise import UnaryOp
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
calls = lazily("tests.support.aten_calls")
networks = lazily("tests.support.aten_networks")
exported = lazily("tests.support.exported_graphs")
tensors = lazily("autosched.torch_frontend.tensors")
TABLES: Final = (
    "activation", "elementwise", "fourier", "indexing", "movement", "norm", "products", "sampling",
    "scattering", "views", "windows",
)  # fmt: skip
pytestmark = pytest.mark.usefixtures("torchlib")


@pytest.mark.parametrize("table", TABLES)
def test_operators_of_torch(table: str) -> None:
    failures = []
    for name, (function, args) in calls.TABLES[table].items():
        network = networks.network_of(networks.traced(function, args), args)
        inputs = [tensors.to_numpy(arg) for arg in args]
        feeds = {v.name: array for v, array in zip(network.inputs, inputs, strict=True)}
        try:
            exported.assert_exported(network.graph, feeds, tolerance=2e-5)
        except Exception as error:
            failures.append(f"{name}: {type(error).__name__} {error}"[:600])
    assert not failures, "\n".join(failures)
