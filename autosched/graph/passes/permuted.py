"""Operators that name dimensions, applied to data whose dimensions are in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autosched.graph.ops.base import Op
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.movement import Expand, Pick, Slice
from autosched.graph.ops.norm import LocalResponseNorm, Normalize
from autosched.graph.ops.reduce import Cumulative
from autosched.graph.ops.resample import Resample
from autosched.graph.ops.shape import Pad
from autosched.graph.ops.softmax import Hardmax, Softmax


def on_permuted(op: Op, due: Sequence[int]) -> Op | None:
    """What to apply to ``stored``, to get what ``op`` makes of ``transpose(stored, due)``.

    The same transposition is due for the result, which must have as many dimensions.  None if there
    is no such operator.
    """
    match op:
        case Softmax() | Hardmax() | Cumulative() | LocalResponseNorm():
            return replace(op, axis=due[op.axis])
        case Gather() | Pick() | Resample():
            return replace(op, axis=due[op.axis])
        case Normalize(axes):
            return replace(op, axes=tuple(sorted(due[axis] for axis in axes)))
        case Pad(low, high, value):
            back = np.argsort(due).tolist()
            return Pad(tuple(low[d] for d in back), tuple(high[d] for d in back), value)
        case Slice(start, stop, step):
            back = np.argsort(due).tolist()
            return Slice(*(tuple(bound[d] for d in back) for bound in (start, stop, step)))
        case Expand(shape) if len(shape) == len(due):
            return Expand(tuple(shape[d] for d in np.argsort(due).tolist()))
        case _:
            return None
