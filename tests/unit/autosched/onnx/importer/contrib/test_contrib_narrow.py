"""The importer of MatMulNBits, against the dequantised product and against onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import autosched as asd
from autosched.graph.evaluate import evaluate
from autosched.graph.optimize import optimize

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

from tests.support.onnx_sessions import reference_session  # noqa: E402


@dataclass(frozen=True)
class Case:
    """A product with a matrix of narrow integers, and how the file has it."""

    block: int = 32
    zeros: str = ""  # the type of zero points
    dtype: str = "float32"
    bits: int = 4
    rows: tuple[int, ...] = (1,)
    k: int = 72
    n: int = 19
    bias: bool = False
    level: int = 0
    groups: tuple[int, ...] = ()

    @property
    def blocks(self) -> int:
        return -(-self.k // self.block)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Of the file, by the places of the operator's inputs."""
        rng = np.random.default_rng(self.block + self.k)
        size = self.block * self.bits // 8
        found: dict[str, NDArray[Any]] = {
            "B": rng.integers(0, 256, (self.n, self.blocks, size)).astype(np.uint8),
            "scales": (0.01 + rng.random(self.n * self.blocks)).astype(self.dtype),
        }
        if self.zeros == "uint8":
            row = -(-self.blocks * self.bits // 8)
            found["zero_points"] = rng.integers(0, 256, self.n * row).astype(np.uint8)
        elif self.zeros:
            found["zero_points"] = rng.integers(0, 60, self.n * self.blocks).astype(self.zeros) / 4
        if self.groups:
            found["g_idx"] = np.array(self.groups, np.int32)
        if self.bias:
            found["bias"] = rng.standard_normal(self.n).astype(self.dtype)
        return found

    def model(self) -> Any:
        arrays = self.arrays()
        names = ("A", "B", "scales", "zero_points", "g_idx", "bias")
        given = [name if name == "A" or name in arrays else "" for name in names]
        while not given[-1]:
            del given[-1]
        attributes = {"K": self.k, "N": self.n, "bits": self.bits, "block_size": self.block}
        node = helper.make_node(
            "MatMulNBits", given, ["Y"], domain="com.microsoft",
            **attributes, accuracy_level=self.level,
        )  # fmt: skip
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        graph = helper.make_graph(
            [node],
            "narrow",
            [helper.make_tensor_value_info("A", kind, (*self.rows, self.k))],
            [helper.make_tensor_value_info("Y", kind, (*self.rows, self.n))],
            [numpy_helper.from_array(array, name) for name, array in arrays.items()],
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def data(self) -> NDArray[Any]:
        rng = np.random.default_rng(3)
        return rng.standard_normal((*self.rows, self.k)).astype(self.dtype)

    def product(self) -> NDArray[np.float64]:
        """With the matrix written out, in float64."""
        arrays = self.arrays()
        integers = _unpacked(arrays["B"].reshape(self.n, -1), self.bits).astype(np.float64)
        zeros: NDArray[Any] = np.full((self.n, self.blocks), 1 << (self.bits - 1))
        points = arrays.get("zero_points")
        if points is not None and self.zeros == "uint8":
            zeros = _unpacked(points.reshape(self.n, -1), self.bits)[:, : self.blocks].astype(float)
        elif points is not None:
            zeros = points.reshape(self.n, -1)
        scales = arrays["scales"].astype(np.float64).reshape(self.n, -1)
        groups = np.array(self.groups or [row // self.block for row in range(self.k)])
        matrix = ((integers[:, : self.k] - zeros[:, groups]) * scales[:, groups]).T
        return np.asarray(self.data().astype(np.float64) @ matrix + arrays.get("bias", 0.0))


def _unpacked(array: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    parts = [array >> first & ((1 << bits) - 1) for first in range(0, 8, bits)]
    return np.stack(parts, -1).reshape(len(array), -1)


# As of quantisers that take rows by what they matter.  Where it has zero points as well,
# onnxruntime's kernel for CPUs does not read them.
REORDERED = Case(32, rows=(2,), groups=tuple(row * 25 % 72 // 32 for row in range(72)))

CASES = (
    Case(16),
    Case(64, "float32", rows=(2, 3)),
    Case(128, "uint8", k=130),
    Case(32, "uint8", bias=True, k=101),
    Case(32, "float16", "float16"),
    Case(32, "uint8", bits=8, rows=(), bias=True),
    Case(16, "uint8", bits=2, rows=(2,)),
    Case(32, groups=tuple(i // 32 for i in range(72))),
    REORDERED,
    replace(REORDERED, zeros="uint8", rows=(), bias=True),
    replace(REORDERED, zeros="float32", bits=8, rows=(2, 3)),
    replace(REORDERED, bits=2),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_multiplies_with_the_dequantised_matrix(case: Case) -> None:
    graph = asd.from_onnx(case.model()).graph
    for form in (graph, optimize(graph)):
        (found,) = evaluate(form, {"A": case.data()}).values()
        np.testing.assert_allclose(found, case.product(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "case", [CASES[3], Case(32, "float16", "float16", rows=(2,), level=4), REORDERED]
)
def test_the_compiled_product_is_that_of_onnxruntime(case: Case) -> None:
    model = case.model()
    feed = {"A": case.data()}
    (expected,) = reference_session(model.SerializeToString()).run(None, feed)
    network = asd.from_onnx(model)
    found = asd.compile(network).run(feed)["Y"]
    assert found.dtype == expected.dtype
    bound = 1e-5 if case.dtype == "float32" else 2e-3
    largest = float(np.abs(case.product()).max())
    np.testing.assert_allclose(found.astype(float), case.product(), rtol=0, atol=bound * largest)
    wide = bound if not case.level else 2e-2  # onnxruntime rounds the data to bytes then
    np.testing.assert_allclose(
        found.astype(float), expected.astype(float), rtol=0, atol=wide * largest
    )


def test_what_it_does_not_take_is_one_error() -> None:
    uneven = Case(32, groups=tuple(row % 3 for row in range(72)))
    for case, message in (
        (uneven, "g_idx"),
        (Case(24), "blocks of 24"),
        (Case(32, bits=5), "5 bits"),
    ):
        with pytest.raises(asd.AutoschedError, match=message):
            asd.from_onnx(case.model())
    model = Case().model()
    model.graph.initializer[0].CopyFrom(
        numpy_helper.from_array(np.zeros((19, 3, 15), np.uint8), "B")
    )
    with pytest.raises(asd.AutoschedError, match="weights"):
        asd.from_onnx(model)


@pytest.mark.parametrize("shape", [(), (2,), (2, 1)])
def test_a_bias_of_another_shape_is_one_error(shape: tuple[int, ...]) -> None:
    model = Case(n=1, rows=(2,), bias=True).model()
    (bias,) = (tensor for tensor in model.graph.initializer if tensor.name == "bias")
    bias.CopyFrom(numpy_helper.from_array(np.ones(shape, np.float32), "bias"))
    with pytest.raises(asd.AutoschedError, match="a bias float32"):
        asd.from_onnx(model)


@pytest.mark.parametrize("given", range(3))
def test_an_input_that_is_left_out_is_one_error(given: int) -> None:
    model = Case().model()
    del model.graph.node[0].input[given:]
    with pytest.raises(asd.AutoschedError, match=f"no {('data', 'weights', 'scales')[given]}"):
        asd.from_onnx(model)
