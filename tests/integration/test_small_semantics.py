"""What standards say of rare inputs, next to PyTorch and onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Network, Value
from autosched.graph.ops.elementwise import BinaryOp, CastOp, UnaryOp
from autosched.graph.passes.scaled_sums import fold_scaled_sums
from codegen.host import host_target
from tests.support.cpu_targets import instruction_sets

MAKE = onnx.helper.make_node


def model(node: onnx.NodeProto, kind: int, shape: tuple[int, ...], opset: int) -> onnx.ModelProto:
    graph = onnx.helper.make_graph(
        [node],
        "one",
        [onnx.helper.make_tensor_value_info("x", kind, shape)],
        [onnx.helper.make_tensor_value_info("y", kind, None)],
    )
    opsets = [onnx.helper.make_opsetid("", opset)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)


def run(made: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    module = asd.compile(asd.from_onnx(made), target=host_target(1), effort="none")
    return module.run({"x": x})["y"]


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize(("dtype", "scale"), [("float16", 1.0), ("float64", 1e-60)])
def test_rows_of_zeros_have_no_norm(dtype: str, scale: float, power: int) -> None:
    node = MAKE("LpNormalization", ["x"], ["y"], p=power, axis=1)
    x = (np.array([[3, 4, 0], [0, 0, 0]]) * scale).astype(dtype)
    kind = onnx.helper.np_dtype_to_tensor_dtype(x.dtype)
    found = run(model(node, kind, x.shape, 22), x)
    expected = np.array([[3, 4, 0], [0, 0, 0]]) / (7 if power == 1 else 5)
    np.testing.assert_allclose(found, expected, rtol=1e-3 if dtype == "float16" else 1e-12)


@pytest.mark.parametrize("target", [t for t in instruction_sets() if t.vector_bytes <= 32], ids=str)
def test_denormal_halves_are_numbers_of_float32(target: asd.Target) -> None:
    """Which are not flushed, with and without an instruction that widens them."""
    tiny = np.array([6e-8, 1e-6, 1e-5, 5e-5, 6.2e-5, 1e-3, 1.0], np.float16)
    x = np.concatenate([tiny, [np.inf, 65504.0]]).astype(np.float16)
    builder = GraphBuilder("half")
    root = builder.add(UnaryOp("sqrt"), [builder.input(Value("x", x.shape, "float16"))])
    net = Network("half", builder.finish({"y": root}))
    found = asd.compile(net, target=target, effort="none").run({"x": x})["y"]
    np.testing.assert_allclose(found, np.sqrt(x.astype(np.float32)), rtol=1e-3)


def chain(count: int, twice: bool) -> Graph:
    builder = GraphBuilder("sums")
    value = builder.add(CastOp("float32"), [builder.input(Value("x", (4,), "uint8"))])
    half = builder.constant("half", np.float32(0.5))
    for _ in range(count):
        value = builder.add(BinaryOp("add"), [value, value if twice else half])
    return builder.finish({"y": builder.add(UnaryOp("round"), [value])})


@pytest.mark.parametrize(("count", "twice"), [(40, True), (1200, False)])
def test_long_sums_are_looked_at_once(count: int, twice: bool) -> None:
    assert fold_scaled_sums(chain(count, twice)).results


def test_weights_are_those_of_the_import() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    layer, x = torch.nn.Conv1d(4, 8, 3), torch.randn(1, 4, 16)
    expected = layer(x).detach().numpy()
    net = asd.from_torch(layer, (x,))
    with torch.no_grad():
        for weight in layer.parameters():
            weight.mul_(3.0)
    module = asd.compile(net, target=host_target(1), effort="none")
    (found,) = module.run({module.inputs[0].name: x.numpy()}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_squares_of_halves_are_no_halves() -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")

    class Variance(torch.nn.Module):
        def forward(self, x):
            return torch.var(x, dim=1)

    x = torch.zeros(2, 1000, dtype=torch.float16)
    x[0, 0] = 500.0
    module = asd.compile(asd.from_torch(Variance(), (x,)), target=host_target(1), effort="none")
    (found,) = module.run({module.inputs[0].name: x.numpy()}).values()
    np.testing.assert_allclose(found, torch.var(x, dim=1).numpy(), rtol=2e-3)


def test_the_difference_of_equal_squares_is_zero() -> None:
    """Both products are rounded: NumPy and the rivals have no NaN here, either."""
    extent = 1000
    a, b = asd.placeholder((extent,), name="a"), asd.placeholder((extent,), name="b")
    stages = [
        asd.compute((extent,), lambda i: asd.sqrt(a[i] * a[i] - b[i] * b[i]), name="y"),
        asd.compute((extent,), lambda i: asd.sqrt(a[i] * a[i] + -(b[i] * b[i])), name="y"),
        asd.compute(
            (extent,),
            lambda i: asd.sqrt((a[i] + b[i]) * (a[i] + b[i]) - 4.0 * (a[i] * b[i])),
            name="y",
        ),
    ]
    given = np.random.default_rng(0).standard_normal(extent).astype(np.float32)
    for target in instruction_sets():
        for number, y in enumerate(stages):
            module = asd.Task(asd.ComputeDAG([y]), target).module()
            found = np.asarray(module.run({"a": given, "b": given.copy()})["y"])
            np.testing.assert_array_equal(found, np.zeros(extent), err_msg=str(number))
