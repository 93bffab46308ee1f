"""Activation functions with a bias, against onnxruntime; those of its GPU alone, against NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from math import erf
from typing import Any

import numpy as np
import pytest

import autosched as asd

pytest.importorskip("onnx")

from tests.support.contrib_models import (
    check_against_onnxruntime,
    contrib_model,
    floats,
    inputs_of,
    results_of,
)

DATA = floats(2, 5, 8)
BIAS = floats(8, seed=1)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("Gelu", [DATA], {}),
        ("BiasGelu", [DATA, BIAS], {}),
        ("FastGelu", [DATA], {}),
        ("FastGelu", [DATA, BIAS], {}),
        ("QuickGelu", [DATA], {}),
        ("QuickGelu", [DATA], {"alpha": 0.7}),
    ],
)
def test_results_are_those_of_onnxruntime(
    operator: str, inputs: list[Any], attributes: Mapping[str, Any]
) -> None:
    check_against_onnxruntime(operator, inputs, attributes, constants=[1])


def gelu(x: Any) -> Any:
    return x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def softmax(x: Any, axis: Any) -> Any:
    exponentials = np.exp(x - x.max(axis=axis, keepdims=True))
    return exponentials / exponentials.sum(axis=axis, keepdims=True)


def split_gelu() -> Any:
    total = DATA + BIAS
    return total[..., :4] * gelu(total[..., 4:])


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "expected"),
    [
        ("BiasAdd", [DATA, BIAS, 2 * DATA], {}, 3 * DATA + BIAS),
        ("BiasSplitGelu", [DATA, BIAS], {}, split_gelu()),
        (
            "BiasSoftmax",
            [DATA, floats(2, 1, 8)],
            {"axis": 2, "is_inner_broadcast": 1},
            softmax(DATA + floats(2, 1, 8), 2),
        ),
        (
            "BiasSoftmax",
            [DATA, floats(1, 5, 8)],
            {"axis": 1, "is_inner_broadcast": 0},
            softmax(DATA + floats(1, 5, 8), (1, 2)),
        ),
    ],
)
def test_operators_without_a_kernel_of_a_cpu(
    operator: str, inputs: list[Any], attributes: Mapping[str, Any], expected: Any
) -> None:
    model = contrib_model(operator, inputs, attributes)
    for found in results_of(model, inputs_of(model, inputs)):
        np.testing.assert_allclose(found["y0"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "message"),
    [
        ("BiasSplitGelu", [floats(2, 7), floats(7)], {}, "halves of 7 elements"),
        ("BiasSoftmax", [floats(1, 8), DATA], {"is_inner_broadcast": 0}, "a bias"),
        ("Gelu", [DATA], {"approximate": "tanh"}, "attribute approximate = 'tanh'"),
    ],
)
def test_refused(
    operator: str, inputs: list[Any], attributes: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(asd.AutoschedError, match=f"com.microsoft.{operator}.*{message}"):
        asd.from_onnx(contrib_model(operator, inputs, attributes))
