"""Which reductions are worth a tile of shared memory."""

from __future__ import annotations

from sketch.analysis.access import reads
from sketch.lang.expr import Axis
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Compute

# Operands that the points of a tile share: with one alone (a vector times a matrix, a depthwise
# convolution) every element of the other is read once, and the caches serve the first.
_SHARED_OPERANDS = 2


def shares_operands(op: Compute) -> bool:
    """Whether several points of a reduction read the same elements of two operands."""
    if op.reduce is None:
        return False
    wide = [axis for axis in op.axes if axis.extent > 1]
    shared = 0
    for accesses in reads(op).values():
        used = {n for ixs in accesses for ix in ixs for n in walk(ix) if isinstance(n, Axis)}
        shared += any(axis not in used for axis in wide)
    return shared >= _SHARED_OPERANDS
