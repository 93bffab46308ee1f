"""What is right: results that are rounded to 16 bits on their way."""

from __future__ import annotations

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import cast
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.oracle.reference import reference

ROWS, TERMS = 8, 16


def _cast(value: Tensor, dtype: str, name: str) -> Tensor:
    result: Tensor = compute((ROWS,), lambda i: cast(value[i], dtype), name=name)
    return result


def _sums(*dtypes: str) -> ComputeDAG:
    """Sums that are rounded to one type after the other."""
    data = placeholder((ROWS, TERMS), name="x")
    k = reduce_axis(TERMS, "k")
    result: Tensor = compute((ROWS,), lambda i: reducers.sum(data[i, k], k), name="sum")
    for n, dtype in enumerate(dtypes):
        result = _cast(result, dtype, f"cast{n}")
    return ComputeDAG([result])


@pytest.mark.parametrize(
    ("dtypes", "units", "right"),
    [
        (("float16",), 1, True),
        (("float16", "float32"), 1, True),
        (("float16", "float32"), 3, False),
        (("float32",), 1, False),
    ],
)
def test_sums_may_be_rounded_to_the_other_side(
    dtypes: tuple[str, ...], units: int, right: bool
) -> None:
    """``units`` in the last place of float16: other orders of sums round the other way."""
    data = np.random.default_rng(0).random((ROWS, TERMS), np.float32)
    dag = _sums(*dtypes)
    expected = reference(dag, {"x": data}, np.random.default_rng(0))
    (name,) = dag.output_names
    got = data.sum(axis=1, dtype=np.float64).astype(np.float16)
    exact = got.astype(np.float64) if "16" in dtypes[0] else data.sum(axis=1, dtype=np.float64)
    moved = exact + units * np.spacing(got).astype(np.float64)
    outputs = {name: moved.astype(np.float16 if dtypes[-1] == "float16" else np.float32)}
    assert (expected.check(outputs) < 1e-5) == right
