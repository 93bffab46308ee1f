"""Values take the places of what their kernels read for the last time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import autosched as asd
from autosched.onnx.importer import from_onnx
from autosched.runtime.lifetimes import lifetimes_of
from autosched.runtime.overwritten import overwritten
from autosched.runtime.program import RepeatedSteps, StepInfo, TensorSpec
from autosched.runtime.wiring import Call, Inside, Wiring
from tests.support.fake_kernels import COUNT, TARGET, FakeArgument, FakeKernel

SIZE = 4 * COUNT
OPERANDS = FakeArgument("a", "input"), FakeArgument("b", "input"), FakeArgument("out", "output")
SUM: Any = FakeKernel("sum", OPERANDS, overwrites=frozenset("ab"))
FIRST: Any = FakeKernel("first", OPERANDS, overwrites=frozenset("a"))
MIXED: Any = FakeKernel("mixed", OPERANDS)
STEPS = ("a", "b", "c", "d")


def found(
    kernels: Sequence[Any],
    values: Sequence[tuple[str, str]],
    outputs: Sequence[str],
    **others: Any,
) -> dict[str, str]:
    """Of calls that write a, b, c ... in this order, and read two values each."""
    names = STEPS[: len(values)]
    calls = [
        Call(kernel, (*read, name), StepInfo(name))
        for kernel, read, name in zip(kernels, values, names, strict=True)
    ]
    wiring = Wiring(
        name="tiny",
        target=TARGET,
        inputs=(TensorSpec("x", (COUNT,), "float32"),),
        outputs=tuple((TensorSpec(name, (COUNT,), "float32"), name) for name in outputs),
        calls=tuple(calls),
        constants={},
        sizes=dict.fromkeys(("x", *names), SIZE) | others.pop("sizes", {}),
        **others,
    )
    spans = lifetimes_of(wiring)
    return overwritten(wiring, spans, {name for name in spans if name not in ("x", *outputs)})


def test_a_chain_lies_in_one_place() -> None:
    reads = [("x", "x"), ("a", "x"), ("x", "b"), ("c", "c")]
    assert found([SUM] * 4, reads, ["d"]) == {"b": "a", "c": "a"}


def test_the_latest_of_two_is_replaced() -> None:
    reads = [("x", "x"), ("x", "x"), ("a", "b"), ("c", "x")]
    assert found([SUM] * 4, reads, ["d"]) == {"c": "b"}


@pytest.mark.parametrize(
    ("kernel", "reads", "others"),
    [
        (MIXED, ("a", "x"), {}),
        (FIRST, ("x", "a"), {}),
        (FIRST, ("a", "a"), {}),
        (SUM, ("x", "x"), {}),
        (SUM, ("a", "x"), {"sizes": {"b": 2 * SIZE}}),
        (SUM, ("a", "x"), {"parts": {"a": Inside("whole", 0)}, "sizes": {"whole": 2 * SIZE}}),
        (SUM, ("a", "x"), {"loops": (RepeatedSteps(0, 3, 5),)}),
    ],
)
def test_other_values_have_places_of_their_own(
    kernel: Any, reads: tuple[str, str], others: dict[str, Any]
) -> None:
    values = [("x", "x"), reads, ("b", "x")]
    assert "b" not in found([MIXED, kernel, MIXED], values, ["c"], **others)


def test_what_is_read_later_or_is_an_output_stays() -> None:
    values = [("x", "x"), ("a", "x"), ("b", "a")]
    assert found([SUM] * 3, values, ["c"]) == {}
    assert found([SUM] * 2, values[:2], ["a", "b"]) == {}


@pytest.mark.parametrize("threads", [1, 2])
def test_a_network_in_fewer_places_computes_the_same(threads: int) -> None:
    """Factors of channels, as of squeeze and excitation: products take the place of what they
    multiply, which a mean has read before.
    """
    make, shape = onnx.helper.make_node, [1, 8, 9, 9]
    rng = np.random.default_rng(0)
    weights = {n: rng.standard_normal((8, 8, 3, 3), np.float32) / 8 for n in ("w0", "w1")}
    nodes = [
        make("Conv", ["x", "w0"], ["c0"], pads=[1] * 4),
        make("GlobalAveragePool", ["c0"], ["m0"]),
        make("Sigmoid", ["m0"], ["s0"]),
        make("Mul", ["c0", "s0"], ["p0"]),
        make("Conv", ["p0", "w1"], ["c1"], pads=[1] * 4),
        make("ReduceMax", ["c1"], ["m1"], axes=[2, 3]),
        make("Mul", ["c1", "m1"], ["p1"]),
        make("MaxPool", ["p1"], ["y"], kernel_shape=[2, 2]),
    ]
    value = onnx.helper.make_tensor_value_info
    kept = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = onnx.helper.make_graph(
        nodes, "factors", [value("x", 1, shape)], [value("y", 1, [1, 8, 8, 8])], kept
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    module = asd.compile(from_onnx(model), target=asd.Target("cpu", threads=threads))
    shared = [
        step for step in module.program.kernel_steps if step.arguments[-2] in step.arguments[:-2]
    ]
    assert len(shared) == 2
    data = rng.standard_normal(shape, np.float32)
    expected = ReferenceEvaluator(model).run(None, {"x": data})[0]
    for _ in range(3):
        np.testing.assert_allclose(module.run({"x": data})["y"], expected, rtol=1e-4, atol=1e-5)
