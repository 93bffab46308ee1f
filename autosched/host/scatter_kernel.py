"""Scatters of single elements at computed places: one loop over the updates, in their order.

Places are data, so that no two threads could tell whether they write the same one: the calling
thread does it all.  No sketch says this; the nest is written by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from codegen.build import build
from codegen.host import host_target
from codegen.kernel import Kernel
from codegen.llvm.jit import Library, aligned_workspace, call, load
from sketch.lang import reducers
from sketch.lang.dtypes import INDEX_DTYPES, is_float
from sketch.lang.expr import Axis, Const, Expr, select
from sketch.nest.loopnest import (
    Affine,
    Buffer,
    BufferLoad,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Quasi,
    Scope,
    Store,
    row_major,
)

_ELEMENTS: Final = frozenset(("float32", "float64", "int32", "int64"))
_KEPT: Final = 64  # kernels


@dataclass(frozen=True, slots=True)
class ScatterShape:
    """``out[o, place[o, m, i], i] = updates[o, m, i]``, or ``+=``.

    Attributes:
        outer: extent of o.
        count: extent of m.
        inner: extent of i.
        extent: of the dimension that is indexed.
        adds: updates are added.
        dtype: of the elements.
        place_dtype: of the places.
    """

    outer: int
    count: int
    inner: int
    extent: int
    adds: bool
    dtype: str
    place_dtype: str


def scattered(
    data: NDArray[Any], places: NDArray[Any], updates: NDArray[Any], axis: int, adds: bool
) -> NDArray[Any] | None:
    """A copy of ``data`` with the updates in their places along ``axis``.

    Args:
        data: numbers.
        places: integers, of the shape of ``data`` but along the axis; negative ones count from the
            end.
        updates: of the shape of the places; of equal places the last one stays.
        axis: of ``data``.
        adds: updates are added.

    Returns:
        None where an array is of another shape or type, or a place is out of range.
    """
    if (
        not (data.ndim and data.size)
        or str(data.dtype) not in _ELEMENTS
        or str(places.dtype) not in INDEX_DTYPES
        or updates.dtype != data.dtype
    ):
        return None
    axis %= data.ndim
    extent = data.shape[axis]
    count = places.size * extent // data.size
    shape = (*data.shape[:axis], count, *data.shape[axis + 1 :])
    if not places.size or not places.shape == updates.shape == shape:
        return None
    if places.min() < -extent or places.max() >= extent:
        return None
    outer, inner = prod(data.shape[:axis]), prod(data.shape[axis + 1 :])
    dtypes = str(data.dtype), str(places.dtype)
    kernel, library = _compiled(ScatterShape(outer, count, inner, extent, adds, *dtypes))
    result = np.empty(data.shape, data.dtype)
    given = {"data": data, "places": places, "updates": updates, "out": result}
    arrays = [np.ascontiguousarray(given[argument.name]) for argument in kernel.arguments]
    call(library.address(kernel.symbol), arrays, aligned_workspace(kernel.workspace_bytes))
    return result


@lru_cache(maxsize=_KEPT)
def _compiled(shape: ScatterShape) -> tuple[Kernel, Library]:
    kernel = build(scatter_nest(shape), host_target(1))
    return kernel, load([kernel])


def scatter_nest(shape: ScatterShape) -> LoopNest:
    """A copy of the data, then loops over o, m and i."""
    whole = (shape.outer, shape.extent, shape.inner)
    given = (shape.outer, shape.count, shape.inner)
    data, out = (
        _buffer(name, whole, shape.dtype, scope)
        for name, scope in (("data", Scope.INPUT), ("out", Scope.OUTPUT))
    )
    places = _buffer("places", given, shape.place_dtype, Scope.INPUT)
    updates = _buffer("updates", given, shape.dtype, Scope.INPUT)
    zero = Const(0.0 if is_float(shape.dtype) else 0, shape.dtype)
    reducer = reducers.sum(zero, Axis("k", 1, "reduce")).reducer if shape.adds else None

    def copied(*at: Affine) -> Store:
        return Store((out,), at, (BufferLoad(data, at),))

    def placed(*at: Affine) -> Store:
        indices = (at[0], _inside(BufferLoad(places, at), shape.extent), at[2])
        return Store((out,), indices, (BufferLoad(updates, at),), reducer)

    roots = _loops("data", whole, copied), _loops("updates", given, placed)
    return LoopNest("scatter", (data, places, updates, out), (), roots)


def _inside(place: Expr, extent: int) -> Quasi:
    """A place as an index: negative ones count from the end."""
    return Quasi(select(place < 0, place + extent, place), 0, extent - 1)


def _loops(name: str, extents: tuple[int, ...], make: Callable[..., Store]) -> Node:
    """``make`` of the variables of loops, one in the other."""
    variables = [LoopVar(f"{name}.{dimension}") for dimension in range(len(extents))]
    node: Node = make(*(Affine(((variable, 1),)) for variable in variables))
    for variable, extent in reversed(list(zip(variables, extents, strict=True))):
        node = Loop(variable, extent, 1, LoopKind.SERIAL, "spatial", (node,))
    return node


def _buffer(name: str, shape: tuple[int, ...], dtype: str, scope: Scope) -> Buffer:
    return Buffer(name, dtype, shape, row_major(shape), (1,) * len(shape), scope, prod(shape))
