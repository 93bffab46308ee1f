"""Maxima whose NaN comes out anyway, and kernels that do not look for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from codegen.build import emit
from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.functions import exp, log, maximum
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.lower.lower import lower
from sketch.lower.skipped_nan import maxima_that_skip_nan
from sketch.operators.softmax import softmax
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.target.target import Target
from sketch.variants.late_factors import late_factors
from tests.support.compiled import run_compiled
from tests.support.cpu_targets import instruction_sets
from tests.support.masked_rows import masked_attention

ROWS, COLUMNS = 9, 37
X = placeholder((ROWS, COLUMNS), name="x")


def names(dag: ComputeDAG) -> list[str]:
    return [dag.stages[position].name for position in sorted(maxima_that_skip_nan(dag))]


def parts(
    last: Callable[[Tensor, Tensor, Tensor], list[Tensor]], summed: int = COLUMNS
) -> ComputeDAG:
    """``last`` of maxima, powers, and sums of the first ``summed`` powers of each row."""
    k, j = reduce_axis(COLUMNS), reduce_axis(summed)
    top = compute((ROWS,), lambda i: reducers.max(X[i, k], axis=k), name="top")
    power = compute((ROWS, COLUMNS), lambda i, c: exp(X[i, c] - top[i]), name="power")
    total = compute((ROWS,), lambda i: reducers.sum(power[i, j], axis=j), name="total")
    return ComputeDAG(last(top, power, total))


def quotient(power: Tensor, total: Tensor, row: int | None = None) -> Tensor:
    return compute(
        (ROWS, COLUMNS), lambda i, c: power[i, c] * (1 / total[i if row is None else row]), name="y"
    )


def test_softmax_and_attention() -> None:
    attention = masked_attention(8, 32)
    late = late_factors(attention)
    assert late is not None
    for dag in (ComputeDAG([softmax(X)]), attention, late):
        assert names(dag) == ["softmax.max"]
    assert names(parts(lambda top, power, total: [quotient(power, total)])) == ["top"]


@pytest.mark.parametrize(
    "dag",
    [
        parts(lambda top, power, total: [quotient(power, total), top]),
        parts(lambda top, power, total: [quotient(power, total), power]),
        parts(lambda top, power, total: [quotient(power, total)], summed=COLUMNS - 1),
        parts(lambda top, power, total: [quotient(power, total, row=0)]),
        parts(lambda top, power, total: [compute((ROWS,), lambda i: log(total[i]) + top[i])]),
        parts(
            lambda top, power, total: [
                compute((ROWS, COLUMNS), lambda i, c: maximum(power[i, c], total[i]))
            ]
        ),
    ],
    ids=["given out", "powers given out", "not all", "of another row", "read again", "no product"],
)
def test_others_keep_theirs(dag: ComputeDAG) -> None:
    assert names(dag) == []


@pytest.mark.parametrize("target", instruction_sets())
def test_rows_with_nan_are_nan_as_a_whole(target: Target) -> None:
    dag, rng = ComputeDAG([softmax(X)]), np.random.default_rng(0)
    x = rng.standard_normal((ROWS, COLUMNS), dtype=np.float32)
    for row, column in ((1, 0), (4, 20), (8, COLUMNS - 1)):
        x[row, column] = np.nan
    x[2, 3], x[5, 7], x[6] = np.inf, -np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        power = np.exp(x - x.max(axis=1, keepdims=True))
        expected = power / power.sum(axis=1, keepdims=True)
    for sketch in generate(dag, target):
        rows = sample(sketch, 3, rng)
        for number in range(len(rows.values)):
            found = run_compiled(sketch, rows.row(number), {"x": x}, target)
            result = next(iter(found.values())).reshape(x.shape)
            np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_no_term_is_compared_with_itself() -> None:
    target = instruction_sets()[-1]
    texts = []
    for dag in (
        parts(lambda top, power, total: [quotient(power, total)]),
        parts(lambda top, power, total: [quotient(power, total), top]),
    ):
        sketch = generate(dag, target)[0]
        row = sample(sketch, 1, np.random.default_rng(0)).row(0)
        texts.append(emit(lower(sketch, row), target, "k").text)
    assert "fcmp ord" not in texts[0] and "fcmp ord" in texts[1]
