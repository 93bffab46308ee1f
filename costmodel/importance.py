"""Which numbers of a schedule matter: what a random forest needs to predict its time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def importances(
    values: NDArray[np.int64], seconds: NDArray[np.float64], trees: int = 32
) -> NDArray[np.float64]:
    """The share of each column in what a forest explains of the logarithm of the time.

    Args:
        values: of the decisions of each program, int64 [programs, decisions].
        seconds: of each program, float64 [programs].
        trees: of the forest.

    Returns:
        Shares that sum to 1, or are 0 where nothing matters, float64 [decisions].
    """
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(trees, random_state=0)
    forest.fit(np.log2(np.maximum(values, 1)), np.log(seconds))
    return np.asarray(forest.feature_importances_)
