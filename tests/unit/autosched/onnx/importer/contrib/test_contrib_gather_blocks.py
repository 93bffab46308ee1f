"""The importer of GatherBlockQuantized, against the dequantised table and onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.graph.optimize import optimize

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

from tests.support.onnx_sessions import reference_session  # noqa: E402

ROWS = 12


@dataclass(frozen=True)
class Case:
    """A table of narrow integers, and how the file has it."""

    kind: str = "uint4"
    zeros: bool = True
    dtype: str = "float32"
    block: int = 16
    shape: tuple[int, ...] = (ROWS, 64)
    places: tuple[int, ...] = (2, 3)
    gather_axis: int = 0

    @property
    def bits(self) -> int:
        return 4 if self.kind == "packed" or self.kind.endswith("4") else 8

    def integers(self, shape: tuple[int, ...], seed: int) -> NDArray[np.int64]:
        low = -8 if self.kind == "int4" else 0
        return np.random.default_rng(seed).integers(low, low + (1 << self.bits), shape)

    @property
    def blocks(self) -> tuple[int, ...]:
        return (*self.shape[:-1], self.shape[-1] // self.block)

    def stored(self, integers: NDArray[np.int64]) -> NDArray[Any]:
        if self.kind == "packed":
            pairs = integers.reshape(*integers.shape[:-1], -1, 2)
            return (pairs[..., 0] | pairs[..., 1] << 4).astype(np.uint8)
        return integers.astype({"int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4}.get(self.kind))

    def scale(self) -> NDArray[Any]:
        return (np.random.default_rng(2).random(self.blocks) + 0.1).astype(self.dtype)

    def model(self) -> Any:
        arrays = {"table": self.stored(self.integers(self.shape, 0)), "scale": self.scale()}
        if self.zeros:
            arrays["zero"] = self.stored(self.integers(self.blocks, 1))
        attributes = {"gather_axis": self.gather_axis, "quantize_axis": len(self.shape) - 1}
        node = helper.make_node(
            "GatherBlockQuantized", ["table", "places", "scale", *(["zero"] * self.zeros)], ["Y"],
            domain="com.microsoft", block_size=self.block, **attributes,
        )  # fmt: skip
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        graph = helper.make_graph(
            [node],
            "table",
            [helper.make_tensor_value_info("places", onnx.TensorProto.INT64, self.places)],
            [helper.make_tensor_value_info("Y", kind, self.result().shape)],
            [numpy_helper.from_array(array, name) for name, array in arrays.items()],
        )
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def feed(self) -> dict[str, NDArray[np.int64]]:
        extent = self.shape[self.gather_axis]
        places = np.random.default_rng(3).integers(-extent, extent, self.places)
        return {"places": places}

    def result(self) -> NDArray[np.float64]:
        """With the table written out, in float64."""
        default = 8 if self.kind == "packed" else 0
        zero = self.integers(self.blocks, 1) if self.zeros else np.full(self.blocks, default)
        wide = [np.repeat(a, self.block, -1) for a in (zero, self.scale().astype(np.float64))]
        table = (self.integers(self.shape, 0) - wide[0]) * wide[1]
        return np.take(table, self.feed()["places"], self.gather_axis)


CASES = (
    Case(),
    Case("int4"),
    Case("packed"),
    Case("int4", zeros=False, dtype="float16"),
    Case("uint4", zeros=False, block=64, places=()),
    Case("packed", zeros=False, block=32),
    Case("int4", shape=(ROWS, 3, 32)),
    Case("int4", gather_axis=1, shape=(4, 7, 32), places=(3,)),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_takes_rows_of_the_dequantised_table(case: Case) -> None:
    graph = asd.from_onnx(case.model()).graph
    bound = 1e-6 if case.dtype == "float32" else 1e-3
    for form in (graph, optimize(graph)):
        (found,) = evaluate(form, case.feed()).values()
        np.testing.assert_allclose(found, case.result(), rtol=bound, atol=bound)
    packed = sum(array.nbytes for array in optimize(graph).constants.values())
    if case.gather_axis == 0:
        assert packed < 2.5 * np.prod(case.shape)  # parameters of short blocks count, too


@pytest.mark.parametrize("case", [*CASES[:4], CASES[6]], ids=str)
def test_the_compiled_rows_are_those_of_onnxruntime(case: Case) -> None:
    model = case.model()
    (expected,) = reference_session(model.SerializeToString()).run(None, case.feed())
    found = asd.compile(asd.from_onnx(model), effort="none").run(case.feed())["Y"]
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"block_size": 48}, "blocks of 48"), ({"quantize_axis": 0}, "blocks along dimension 0")],
)
def test_what_it_does_not_take_is_one_error(changed: dict[str, int], message: str) -> None:
    model = Case().model()
    for attribute in model.graph.node[0].attribute:
        attribute.i = changed.get(attribute.name, attribute.i)
    with pytest.raises(asd.AutoschedError, match=message):
        asd.from_onnx(model)
