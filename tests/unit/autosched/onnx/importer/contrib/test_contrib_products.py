"""Matrix products and convolutions with something around them, against onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.graph.extract import extract

pytest.importorskip("onnx")

from tests.support.contrib_models import (
    check_against_onnxruntime,
    contrib_model,
    floats,
    inputs_of,
    results_of,
)
from tests.support.onnx_sessions import reference_session


@pytest.mark.parametrize("operator", ["FusedMatMul", "TransposeMatMul"])
@pytest.mark.parametrize("alpha", [1.0, 0.3])
@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_matrices_are_transposed_and_the_product_is_scaled(
    operator: str, alpha: float, turned: tuple[int, int]
) -> None:
    lhs = floats(2, 3, 7, 5) if turned[0] else floats(2, 3, 5, 7)
    rhs = floats(9, 7) if turned[1] else floats(7, 9)
    attributes = {"transA": turned[0], "transB": turned[1], "alpha": alpha}
    check_against_onnxruntime(operator, [lhs, rhs], attributes)


@pytest.mark.parametrize("turned", list(product((0, 1), repeat=4)))
@pytest.mark.parametrize("batch", [(2,), (2, 3)])
def test_rows_are_before_the_batch(batch: tuple[int, ...], turned: tuple[int, ...]) -> None:
    """All four: of A and B, whether the last dimensions are exchanged, then whether it is so."""
    shapes = []
    for extents, swapped, first in zip(((5, 7), (7, 4)), turned[:2], turned[2:], strict=True):
        rows, columns = reversed(extents) if swapped else extents
        shapes.append((rows, *batch, columns) if first else (*batch, rows, columns))
    names = ("transA", "transB", "transBatchA", "transBatchB")
    attributes = {**dict(zip(names, turned, strict=True)), "alpha": 0.3}
    check_against_onnxruntime("FusedMatMul", [floats(*shape) for shape in shapes], attributes)


def test_a_vector_has_nothing_to_transpose() -> None:
    check_against_onnxruntime("FusedMatMul", [floats(5), floats(5, 2)], {"transA": 1, "alpha": 2.0})
    check_against_onnxruntime("FusedMatMul", [floats(3, 5), floats(5)], {"transB": 1})


GEMM_ACTIVATIONS: Mapping[str, Mapping[str, float]] = {
    "Relu": {},
    "Tanh": {},
    "Sigmoid": {},
    "Softplus": {},
    "Softsign": {},
    "LeakyRelu": {"activation_alpha": 0.1},
    "Elu": {"activation_alpha": 0.7},
    "ThresholdedRelu": {"activation_alpha": 0.3},
    "HardSigmoid": {"activation_alpha": 0.3, "activation_beta": 0.4},
    "Selu": {"activation_alpha": 1.3, "activation_gamma": 1.1},
}


@pytest.mark.parametrize("activation", GEMM_ACTIVATIONS)
def test_gemm_with_an_activation(activation: str) -> None:
    attributes = {
        "transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0, "activation": activation,
        **GEMM_ACTIVATIONS[activation],
    }  # fmt: skip
    inputs = [floats(5, 3), floats(4, 5), floats(4)]
    check_against_onnxruntime("FusedGemm", inputs, attributes, constants=[1, 2])


CONV_ACTIVATIONS: Mapping[str, Sequence[float]] = {
    "": (),
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "HardSwish": (),
    "LeakyRelu": (0.1,),
    "Clip": (-0.3, 0.4),
    "HardSigmoid": (0.2, 0.4),
}


def conv_attributes(activation: str) -> dict[str, Any]:
    attributes: dict[str, Any] = {"group": 2, "strides": [2, 1], "pads": [1, 0, 1, 0]}
    if activation:
        attributes["activation"] = activation
    if CONV_ACTIVATIONS[activation]:
        attributes["activation_params"] = list(CONV_ACTIVATIONS[activation])
    return attributes


@pytest.mark.parametrize("activation", CONV_ACTIVATIONS)
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_convolution_with_an_activation(activation: str, residual: bool, bias: bool) -> None:
    inputs = [floats(1, 4, 7, 5), floats(6, 2, 3, 2), floats(6) if bias else None]
    inputs += [floats(1, 6, 4, 4)] if residual else []
    check_against_onnxruntime("FusedConv", inputs, conv_attributes(activation), constants=[1])


@pytest.mark.parametrize("activation", ["", "LeakyRelu"])
@pytest.mark.parametrize("residual", [False, True])
def test_channels_that_are_last(activation: str, residual: bool) -> None:
    """onnxruntime has no kernel for a CPU: it computes the same with channels first."""
    weight, bias = floats(6, 2, 3, 2), floats(6)
    first = [floats(1, 4, 7, 5), weight, bias, *([floats(1, 6, 4, 4)] if residual else [])]
    last = [a.transpose(0, 2, 3, 1) if n in (0, 3) else a for n, a in enumerate(first)]
    attributes = conv_attributes(activation)
    reference = contrib_model("FusedConv", first, attributes)
    session = reference_session(reference.SerializeToString())
    (expected,) = session.run(None, inputs_of(reference, first))
    operator = "NhwcFusedConv"
    if not activation and not residual:
        operator, last[1] = "NhwcConv", weight.transpose(0, 2, 3, 1)
    model = contrib_model(operator, last, attributes, constants=[1, 2])
    for found in results_of(model, inputs_of(model, last)):
        np.testing.assert_allclose(
            found["y0"].transpose(0, 3, 1, 2), expected, rtol=1e-5, atol=1e-5
        )


RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (2, 3, 9)).astype(np.uint8)
COLUMN_SCALES = np.linspace(0.01, 0.06, 6, dtype=np.float32)


def weights(dtype: str, columns: bool, zero: bool) -> list[Any]:
    """A matrix of bytes, its scale and its zero point."""
    scale = COLUMN_SCALES if columns else np.asarray(0.02, np.float32)
    point = np.arange(6).astype(dtype) if columns else np.asarray(3, dtype)
    return [RNG.integers(0, 100, (9, 6)).astype(dtype), scale, point if zero else None]


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_products_of_bytes_in_floats(dtype: str, columns: bool, zero: bool, bias: bool) -> None:
    matrix, scale, point = weights(dtype, columns, zero)
    own = np.asarray(120, np.uint8) if zero else None
    extra = [floats(6)] if bias else []
    inputs = [BYTES, matrix, np.asarray(0.03, np.float32), scale, own, point, *extra]
    check_against_onnxruntime("MatMulIntegerToFloat", inputs, {}, constants=[1, 3, 5])
    inputs = [floats(2, 3, 9), matrix, scale, point, *extra]
    check_against_onnxruntime("DynamicQuantizeMatMul", inputs, {}, constants=[1, 2, 3])


def test_products_of_bytes_are_computed_on_bytes() -> None:
    inputs = [floats(4, 64), RNG.integers(-99, 99, (64, 32)).astype(np.int8), COLUMN_SCALES[:1]]
    found = extract(
        asd.from_onnx(contrib_model("DynamicQuantizeMatMul", inputs, {}, constants=[1, 2]))
    )
    types = found.graph.types
    dense = [n for n in found.graph.nodes if n.op.kind in ("dense", "matmul")]
    assert [{types[name].dtype for name in n.inputs[:2]} for n in dense] == [{"uint8", "int8"}]


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "message"),
    [
        (
            "FusedMatMul", [floats(2, 2, 2), floats(2)], {"transBatchA": 1},
            "transBatchA of a matrix next to a vector",
        ),
        (
            "FusedMatMul", [floats(5, 3), floats(5)], {"transA": 1},
            "transA of a matrix next to a vector",
        ),
        (
            "FusedGemm", [floats(3, 5), floats(5, 2)], {"activation": "Softmax"},
            "activation 'Softmax' with 0 parameters",
        ),
        (
            "FusedConv", [floats(1, 2, 4, 4), floats(2, 2, 3, 3)],
            {"activation": "Clip", "activation_params": [0.0]},
            "activation 'Clip' with 1 parameters",
        ),
        (
            "MatMulIntegerToFloat",
            [BYTES, RNG.integers(0, 9, (9, 6)).astype(np.uint8), floats(3), floats(6)],
            {}, "of A",
        ),
    ],
)  # fmt: skip
def test_refused(
    operator: str, inputs: list[Any], attributes: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(asd.AutoschedError, match=f"com.microsoft.{operator}.*{message}"):
        asd.from_onnx(contrib_model(operator, inputs, attributes))
