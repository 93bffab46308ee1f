"""Networks that came from PyTorch or from ONNX compute the same when they are exported."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import autosched as asd
from autosched import zoo
from autosched.graph.errors import GraphError
from autosched.network_source import from_onnx
from sketch.errors import AutoschedError
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
backend_cases = lazily("onnx.backend.test.case.node", "onnx")
calls = lazily("tests.support.aten_calls")
exported = lazily("tests.support.exported_graphs")
modules = lazily("tests.support.exported_modules")
networks = lazily("tests.support.aten_networks")
tensors = lazily("autosched.torch_frontend.tensors")
TABLES: Final = (
    "activation", "elementwise", "fourier", "indexing", "movement", "norm", "products", "sampling",
    "scattering", "views", "windows",
)  # fmt: skip
MODULES: Final = ("causal", "windows", "recurrent", "masked", "upsampled", "experts")
NOT_EXPORTED: Final = {
    "test_convinteger_without_padding": "a convolution of int32",
    "test_convinteger_with_padding": "a convolution of int32",
    "test_qlinearconv": "a convolution of int32",
}
DIFFERENT: Final = {
    "test_dynamicquantizelinear": "a number between two integers, rounded in float64",
    "test_dynamicquantizelinear_expanded": "a number between two integers, rounded in float64",
}
_HALF: Final = 2e-3
_SINGLE: Final = 2e-5


@pytest.mark.usefixtures("torchlib")
@pytest.mark.parametrize("table", TABLES)
def test_operators_of_torch(table: str) -> None:
    failures = []
    for name, (function, args) in calls.TABLES[table].items():
        network = networks.network_of(networks.traced(function, args), args)
        arrays = [tensors.to_numpy(arg) for arg in args]
        feeds = {v.name: array for v, array in zip(network.inputs, arrays, strict=True)}
        try:
            exported.assert_exported(network.graph, feeds, tolerance=_SINGLE)
        except Exception as error:  # onnx's, onnxruntime's or ours: all that fail are listed
            failures.append(f"{name}: {type(error).__name__} {error}"[:600])
    assert not failures, "\n".join(failures)


@pytest.mark.usefixtures("torchlib")
@pytest.mark.parametrize("name", MODULES)
def test_modules_of_torch(name: str) -> None:
    module, given = modules.examples()[name]
    network = asd.from_torch(module, given)
    feeds = {network.inputs[0].name: tensors.to_numpy(given)}
    exported.assert_exported(network.graph, feeds, tolerance=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.NAMES)
def test_networks_of_the_zoo_have_a_form(name: str) -> None:
    pytest.importorskip("onnx")
    from autosched.onnx.export import to_onnx

    assert to_onnx(zoo.build(name).graph).graph.node


@pytest.mark.slow
def test_nodes_of_onnx() -> None:
    """Those that kernels compute, of the tests of ONNX's backends."""
    failures, count = {}, 0
    for case in backend_cases.collect_testcases(None):
        try:
            graph = from_onnx(case.model).graph
        except AutoschedError:  # tests of the importer say which
            continue
        feeds = _feeds(case, graph)
        if feeds is None or any(node.op.on_host for node in graph.nodes):
            continue
        count += 1
        try:
            tolerance = _HALF if any(v.dtype == "float16" for v in graph.inputs) else _SINGLE
            exported.assert_exported(graph, feeds, tolerance=tolerance)
        except Exception as error:  # as above
            failures[case.name] = type(error)
    assert count > 1000
    assert failures.keys() == NOT_EXPORTED.keys() | DIFFERENT.keys()
    assert all(failures[name] is GraphError for name in NOT_EXPORTED)


def _feeds(case: Any, graph: Any) -> dict[str, Any] | None:
    """The inputs that a test has; None where there are none that onnxruntime takes."""
    constants = {tensor.name for tensor in case.model.graph.initializer}
    names = [value.name for value in case.model.graph.input if value.name not in constants]
    given = dict(zip(names, case.data_sets[0][0], strict=False))
    arrays = {value.name: np.asarray(given.get(value.name)) for value in graph.inputs}
    fits = all(arrays[value.name].shape == value.shape for value in graph.inputs)
    narrow = any(v.dtype == "bfloat16" for v in (*graph.inputs, *graph.outputs))
    return arrays if fits and not narrow else None
