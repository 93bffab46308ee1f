"""How wide the elements are that a vector computes on: the widest of what is loaded, stored and
computed from data.  Index arithmetic does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from sketch.lang.dtypes import size_of
from sketch.lang.expr import Expr, Load, Var
from sketch.lang.kept import kept
from sketch.lang.rewrite import children
from sketch.lang.tensor import Compute
from sketch.nest.loopnest import (
    AffineValue,
    BufferLoad,
    Loop,
    LoopKind,
    LoopVar,
    Store,
)


def data_bytes(values: Iterable[Expr]) -> int:
    """Bytes of the widest scalar that depends on data; 0 where nothing does."""
    known: dict[int, int] = {}
    return max((_widest(value, known) for value in values), default=0)


def _widest(node: Expr, known: dict[int, int]) -> int:
    found = known.get(id(node))
    if found is None:
        if isinstance(node, AffineValue | LoopVar):
            found = 0
        elif isinstance(node, Load | BufferLoad | Var):
            found = size_of(node.dtype)
        else:
            found = max((_widest(part, known) for part in children(node)), default=0)
            found = max(found, size_of(node.dtype)) if found else 0
        known[id(node)] = found
    return found


@kept  # rules ask for the same stages again and again
def lane_bytes(op: Compute) -> int:
    """Bytes of a lane when a stage is vectorised."""
    return max(size_of(op.output_dtypes[0]), data_bytes(op.bodies))


@lru_cache(maxsize=64)  # asked again and again while one nest is looked at
def store_bytes(store: Store) -> int:
    """Bytes of a lane of a statement of a nest."""
    return max(size_of(store.targets[0].dtype), data_bytes(store.values))


def in_tile_registers(loops: Iterable[Loop]) -> bool:
    """Whether what a statement adds to is a block of rows in a register of a tensor unit.

    Such a unit adds products along two loops: of groups, and within a group.
    """
    units = (loop for loop in loops if loop.kind is LoopKind.TENSOR)
    return sum(loop.axis_kind == "reduce" for loop in units) > 1
