"""Operators of several stages on 16-bit floats: nothing between the stages is rounded."""

from collections.abc import Callable

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import Expr
from sketch.lang.tensor import Tensor, placeholder
from sketch.operators import elementwise, normalization, pooling, reduction, softmax
from sketch.oracle.interpret import interpret

Operator = Callable[[Tensor], Tensor]
LARGE = 300.0  # its square, and the sum of 1000 of it, are beyond the largest float16


def _next(value: Expr) -> Expr:
    return value + 1


CASES: list[tuple[Operator, float]] = [
    (lambda x: reduction.mean(x, (1, 2)), LARGE),
    (lambda x: reduction.l2(x, (1,)), LARGE * np.sqrt(1000)),
    (lambda x: normalization.normalize(x, (1,), 0.0, centered=False), 1.0),
    (
        lambda x: elementwise.map_elements(normalization.normalize_groups(x, 1, 1.0), _next, "y"),
        1.0,
    ),
    (lambda x: normalization.local_response_norm(x, 1, 1, 1.0, 0.5, 0.0), 1.0),
    (lambda x: pooling.pool2d(_map(x), "avg", (1000, 1)), LARGE),
    (lambda x: reduction.log_sum_exp(x, (1,)), LARGE + np.log(1000)),
    (lambda x: softmax.log_softmax(x, 1), -np.log(1000)),
    (lambda x: softmax.softmax(x, 1), 1e-3),
]


def _map(data: Tensor) -> Tensor:
    from sketch.operators.layout import reshape

    return reshape(data, (2, 1000, 1, 1), "map")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(("operator", "expected"), CASES)
def test_large_values_do_not_overflow_between_stages(
    operator: Operator, expected: float, dtype: str
) -> None:
    result = operator(placeholder((2, 1000, 1), dtype, "x"))
    assert result.dtype == dtype
    dag = ComputeDAG([result])
    (found,) = interpret(dag, {"x": np.full((2, 1000, 1), LARGE)}).values()
    np.testing.assert_allclose(found, expected, rtol=2**-8)


def test_float32_has_no_further_stages() -> None:
    result = softmax.softmax(placeholder((2, 8), name="x"), 1)
    names = [op.name for op in ComputeDAG([result]).stages]
    assert names == ["softmax.max", "softmax.exp", "softmax.sum", "softmax"]
