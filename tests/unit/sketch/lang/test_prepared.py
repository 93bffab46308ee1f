"""Constants in another form than the caller has them."""

import numpy as np
import pytest

from sketch.lang.prepared import LinearMap


@pytest.mark.parametrize("period", [1, 5, 12, 13])
def test_what_repeats_is_computed_once(period: int) -> None:
    change = LinearMap((3, 4, 3), ((1.0, 0.5, -1.0), (0.0, 0.25, 2.0)))
    numbers = np.random.default_rng(0).standard_normal(period, np.float32)
    array = np.resize(numbers, change.shape)
    whole, repeated = change.apply(array), change.apply(array, period=period)
    assert repeated.shape == whole.shape == (2, 4, 3) and repeated.dtype == np.float32
    np.testing.assert_array_equal(repeated, whole)
