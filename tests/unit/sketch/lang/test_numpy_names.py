"""Powers, NumPy's functions and NumPy's dtypes in expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.dag.printer import print_expr
from sketch.errors import ExpressionError
from sketch.lang import functions
from sketch.lang.dtypes import SUPPORTED
from sketch.lang.expr import Expr, binary, cast
from sketch.lang.functions import pow as power
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.oracle.interpret import interpret

A = placeholder((4,), name="A")
ELEMENT = A[0]


def text(node: Any) -> str:
    assert isinstance(node, Expr)
    return print_expr(node)


def test_powers_are_those_of_pow() -> None:
    k = reduce_axis(4)
    pairs = [
        (ELEMENT**2, power(ELEMENT, 2)), (2**ELEMENT, power(2, ELEMENT)),
        (ELEMENT**0.5, power(ELEMENT, 0.5)), (k**2, power(k, 2)),
        (ELEMENT**ELEMENT, power(ELEMENT, ELEMENT)),
        (np.float32(2) ** ELEMENT, power(2, ELEMENT)), (np.power(ELEMENT, 2), power(ELEMENT, 2)),
    ]  # fmt: skip
    for found, expected in pairs:
        assert text(found) == text(expected) and found.dtype == expected.dtype


def test_powers_are_computed() -> None:
    dag = ComputeDAG(compute((4,), lambda i: A[i] ** 3 + 2 ** A[i], name="B"))
    values = np.array([0.5, 1.0, -2.0, 3.0], np.float32)
    assert np.allclose(interpret(dag, {"A": values})["B"], values**3 + 2**values)


@pytest.mark.parametrize(
    ("numpy_name", "ours"),
    [("exp", "exp"), ("arcsin", "asin"), ("absolute", "abs"), ("rint", "round"), ("sign", "sign"),
     ("isnan", "isnan"), ("tanh", "tanh")],
)  # fmt: skip
def test_functions_of_numpy_are_ours(numpy_name: str, ours: str) -> None:
    assert text(getattr(np, numpy_name)(ELEMENT)) == text(getattr(functions, ours)(ELEMENT))


def test_functions_of_two_operands_are_ours() -> None:
    assert text(np.maximum(ELEMENT, 0)) == text(functions.maximum(ELEMENT, 0))
    assert text(np.fmod(ELEMENT, 2)) == text(functions.fmod(ELEMENT, 2))
    assert text(np.add(np.float32(1), ELEMENT)) == text(1 + ELEMENT)
    assert [text(node) for node in np.array([1.0, 2.0]) * ELEMENT] == ["1*A[0]", "2*A[0]"]


@pytest.mark.parametrize("function", [np.cbrt, np.gcd, np.logaddexp])
def test_other_functions_of_numpy_name_ours(function: Any) -> None:
    operands = [ELEMENT] * function.nin
    with pytest.raises(ExpressionError, match=r"numpy\.\w+ takes no tensor.*exp, sqrt, maximum"):
        function(*operands)


@pytest.mark.parametrize("name", SUPPORTED)
def test_dtypes_of_numpy_are_names(name: str) -> None:
    scalar = ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name).type
    for given in (scalar, np.dtype(scalar)):
        made = placeholder((4,), dtype=given)
        assert type(made.dtype) is str and made.dtype == name
        assert cast(ELEMENT, given).dtype == name


@pytest.mark.parametrize("given", [np.complex64, np.dtype("complex64"), dict, "float", 3, None])
def test_other_dtypes_are_refused(given: Any) -> None:
    with pytest.raises(ExpressionError, match="is not supported"):
        placeholder((4,), dtype=given)


def test_numbers_of_numpy_are_compared() -> None:
    assert text(np.float32(2) < ELEMENT) == text(binary("lt", 2.0, ELEMENT))
    assert (np.float32(2) < ELEMENT).dtype == "bool"
    equal, unequal = binary("eq", ELEMENT, 2.0), binary("ne", ELEMENT, 2.0)
    assert text(np.equal(ELEMENT, 2.0)) == text(equal)
    assert text(np.not_equal(ELEMENT, 2.0)) == text(unequal)
    assert text(np.float32(2) == ELEMENT) == text(binary("eq", 2.0, ELEMENT))


@pytest.mark.parametrize(
    "call",
    [
        lambda: np.equal(np.ones(2), ELEMENT),
        lambda: np.not_equal.outer(np.ones(2), ELEMENT),
        lambda: np.equal(ELEMENT, 1.0, dtype=object),
        lambda: np.logical_or(np.ones(2), ELEMENT),
    ],
)
def test_what_numpy_decides_without_the_expression_is_refused(call: Callable[[], Any]) -> None:
    with pytest.raises(ExpressionError, match=r"numpy\.\w+ takes no tensor"):
        call()
