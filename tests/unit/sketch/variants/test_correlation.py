"""What counts as a correlation."""

from __future__ import annotations

import pytest

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Expr
from sketch.lang.tensor import Compute, compute, placeholder, reduce_axis
from sketch.variants.correlation import correlation
from sketch.variants.derive import ALGORITHMS, variants_of


@pytest.mark.parametrize(("channels", "matches"), [(16, True), (32, False)])
def test_windows_over_some_channels_of_the_data_are_none(channels: int, matches: bool) -> None:
    """Their other channels would be transformed, too, with weights that are not there."""
    data = placeholder((1, 10, 10, channels), name="x")
    weight = placeholder((3, 3, 16, 16), name="w", constant=True)
    p, q, k = reduce_axis(3), reduce_axis(3), reduce_axis(16)

    def window(n: Expr, h: Expr, v: Expr, o: Expr) -> Expr:
        return reducers.sum(data[n, h + p, v + q, k] * weight[p, q, k, o], (p, q, k))

    dag = ComputeDAG([compute((1, 8, 8, 16), window, name="y")])
    (op,) = dag.stages
    assert isinstance(op, Compute)
    assert (correlation(op) is not None) == matches
    assert any(name.startswith("winograd") for name in variants_of(dag, ALGORITHMS)) == matches
