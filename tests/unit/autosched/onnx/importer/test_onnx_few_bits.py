"""DequantizeLinear of integers below a byte: products read them as they are stored."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.graph.ops.narrow import NarrowMatMul
from autosched.graph.optimize import optimize

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

K, N, BLOCK = 64, 24, 16
TYPES = {"int4": (ml_dtypes.int4, -8, 8), "uint4": (ml_dtypes.uint4, 0, 16)}


def model(kind: str, blocked: bool, turned: bool, zeros: bool, rows: int = 1) -> Any:
    """``x @ dequantised`` and the matrix ``[K, N]``, which the file may have transposed."""
    rng = np.random.default_rng(0)
    dtype, low, high = TYPES[kind]
    groups = K // BLOCK if blocked else 1
    whole, zero = (rng.integers(low, high, (count, N)) for count in (K, groups))
    scale = (rng.random((groups, N)) + 0.1).astype(np.float32)
    wide = [np.repeat(a, K // groups, 0) for a in (zero * zeros, scale.astype(np.float64))]
    matrix = (whole - wide[0]) * wide[1]
    arrays = {"w": whole.astype(dtype), "s": scale, "z": zero.astype(dtype)}
    arrays = {name: a.T if turned else a for name, a in arrays.items()}
    if not blocked:
        arrays |= {name: arrays[name].reshape(-1) for name in "sz"}
    given = ["w", "s", *(["z"] * zeros)]
    axis = int(turned) if blocked else 1 - int(turned)
    attributes = {"axis": axis, "block_size": BLOCK} if blocked else {"axis": axis}
    nodes = [helper.make_node("DequantizeLinear", given, ["f"], **attributes)]
    if turned:
        nodes.append(helper.make_node("Transpose", ["f"], ["t"], perm=[1, 0]))
    nodes.append(helper.make_node("MatMul", ["x", "t" if turned else "f"], ["y"]))
    graph = helper.make_graph(
        nodes,
        "few",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (rows, K))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (rows, N))],
        [numpy_helper.from_array(np.ascontiguousarray(arrays[n]), n) for n in given],
    )
    opsets = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), matrix


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("kind", list(TYPES))
def test_products_of_one_row(kind: str, blocked: bool, turned: bool, zeros: bool) -> None:
    given, matrix = model(kind, blocked, turned, zeros)
    graph = asd.from_onnx(given).graph
    data = np.random.default_rng(1).standard_normal((1, K)).astype(np.float32)
    found = optimize(graph)
    for form in (graph, found):
        (values,) = evaluate(form, {"x": data}).values()
        np.testing.assert_allclose(values, data @ matrix, rtol=1e-5, atol=1e-4)
    (op,) = (node.op for node in found)
    assert isinstance(op, NarrowMatMul) and op.stored.bits == 4


def test_the_compiled_product() -> None:
    given, matrix = model("int4", True, True, True)
    data = np.random.default_rng(1).standard_normal((1, K)).astype(np.float32)
    found = asd.compile(asd.from_onnx(given), effort="none").run({"x": data})["y"]
    np.testing.assert_allclose(found, data @ matrix, rtol=1e-4, atol=1e-4)


def test_many_rows_read_floats() -> None:
    graph = asd.from_onnx(model("uint4", True, False, True, rows=100)[0]).graph
    assert not any(isinstance(node.op, NarrowMatMul) for node in optimize(graph))
