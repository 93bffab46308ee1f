"""Which programs have results that jump."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sketch.analysis.jumps import jumps, rounded_to
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Expr, cast, select, unary
from sketch.lang.functions import maximum
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis

CASES: dict[str, tuple[Callable[[Expr], Expr], str, bool]] = {
    "relu": (lambda x: maximum(x, 0.0), "float32", False),
    "exponential": (lambda x: unary("exp", x), "float32", False),
    "leaky": (lambda x: select(x > 0, x, x * 0.1), "float32", False),
    "wider": (lambda x: cast(x, "float64"), "float32", False),
    "to float": (lambda x: cast(x, "float32"), "int32", False),
    "of a 16-bit float": (lambda x: cast(x, "float32"), "float16", False),
    "floor": (lambda x: unary("floor", x * 8.0) / 8.0, "float32", True),
    "sign": (lambda x: unary("sign", x), "float32", True),
    "sign of an integer": (lambda x: unary("sign", x), "int32", False),
    "to integer and back": (lambda x: cast(cast(x, "int32"), "float32"), "float32", True),
    "through 16 bits": (lambda x: cast(cast(x, "bfloat16"), "float32"), "float32", True),
}


@pytest.mark.parametrize("case", CASES)
def test_what_rounds_floats_jumps(case: str) -> None:
    function, dtype, expected = CASES[case]
    data = placeholder((4, 8), dtype=dtype, name="x")
    middle = compute((4, 8), lambda *i: function(data[i]), name="middle")
    dag = ComputeDAG([compute((4, 8), lambda *i: middle[i] + 1, name="y")])
    assert jumps(dag.stages) == expected


def _sums() -> Tensor:
    """Of elements that are narrow before them."""
    data = placeholder((4, 8), name="x")
    narrow = compute((4, 8), lambda i, j: cast(data[i, j], "float16"), name="narrow")
    k = reduce_axis(8, "k")
    total: Tensor = compute(
        (4,), lambda i: reducers.sum(cast(narrow[i, k], "float32"), k), name="total"
    )
    return total


def _cast(value: Tensor, dtype: str) -> Tensor:
    result: Tensor = compute(value.shape, lambda i: cast(value[i], dtype), name=f"to_{dtype}")
    return result


def test_what_becomes_of_sums_may_be_rounded() -> None:
    total = _sums()
    narrow = _cast(total, "bfloat16")
    wide = _cast(narrow, "float32")
    both = compute((4,), lambda i: total[i] + wide[i], name="both")
    assert rounded_to([narrow]) == rounded_to([wide]) == "bfloat16"
    assert rounded_to([_cast(total, "float16"), wide]) == "bfloat16"
    assert rounded_to([total]) is rounded_to([both]) is rounded_to([narrow, total]) is None
    assert rounded_to([_cast(placeholder((4,), name="x"), "float32")]) is None
