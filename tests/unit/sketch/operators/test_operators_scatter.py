"""Arrays of which data say where something is added, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.errors import ExpressionError
from sketch.lang.tensor import placeholder
from sketch.operators.scatter import received
from sketch.oracle.interpret import interpret


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("extent", [100, 128, 256, 300])
def test_places_in_types_that_do_not_hold_the_extent(dtype: str, extent: int) -> None:
    places, updates = placeholder((400, 1), dtype, name="p"), placeholder((400, 2), name="u")
    rng, limits = np.random.default_rng(0), np.iinfo(dtype)
    low, high = max(limits.min, -extent - 3), min(limits.max, extent + 3)
    inputs = {
        "p": rng.integers(low, high, (400, 1), dtype, endpoint=True),
        "u": rng.random((400, 2), np.float32),
    }
    wanted, own = np.zeros((extent, 2)), inputs["p"][:, 0].astype(np.int64)
    own = np.where(own < 0, own + extent, own)
    inside = (own >= 0) & (own < extent)
    np.add.at(wanted, own[inside], inputs["u"][inside])
    found = interpret(ComputeDAG([received(places, updates, 0, extent, "sum", "out")]), inputs)
    np.testing.assert_allclose(found["out"], wanted, rtol=1e-6)


def test_places_are_not_repeated_along_their_axis() -> None:
    with pytest.raises(ExpressionError, match="do not fit updates"):
        received(placeholder((1, 2), "int32"), placeholder((4, 2)), 0, 3, "sum")
