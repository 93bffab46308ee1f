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
    Affine,
    AffineValue,
    BufferLoad,
    Loop,
    LoopKind,
    LoopVar,
    Store,
)
from sketch.nest.walk import buffer_loads, index_variables


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
    """Bytes of a lane of a statement of a nest.

    Where data say which element it stores to, what all lanes of the others share is no lane's.
    """
    own = size_of(store.targets[0].dtype)
    if all(isinstance(index, Affine) for index in store.indices):
        return max(own, data_bytes(store.values))
    moving = {v for i in store.indices if isinstance(i, Affine) for v in index_variables(i)}
    moved = (x for value in store.values for x in buffer_loads(value))
    return max([own, *(size_of(x.dtype) for x in moved if moving.intersection(_variables(x)))])


def _variables(load: BufferLoad) -> set[LoopVar]:
    return {variable for index in load.indices for variable in index_variables(index)}


def in_tile_registers(loops: Iterable[Loop]) -> bool:
    """Whether what a statement adds to is a block of rows in a register of a tensor unit.

    Such a unit adds products along two loops: of groups, and within a group.
    """
    units = (loop for loop in loops if loop.kind is LoopKind.TENSOR)
    return sum(loop.axis_kind == "reduce" for loop in units) > 1
