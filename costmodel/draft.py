"""The analytic draft model: ranks programs before there is any data, and prunes sketches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from costmodel.extract.assemble import draft
from sketch.loopnest import LoopNest
from sketch.target import Target


def draft_seconds(nest: LoopNest, count: int, target: Target) -> NDArray[np.float64]:
    """Estimated time of each program of a population.

    Args:
        nest: lowered from arrays ``[count]``, or from ints (then ``count`` is 1).
        count: programs.
        target: the machine; no other number of a machine enters.

    Returns:
        [count] seconds of a nominal machine: they rank, they are no prediction.
    """
    total = np.zeros(count)
    for terms in draft(nest, count, target):
        total = total + terms.total
    return total
