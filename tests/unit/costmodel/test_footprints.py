"""Closed-form footprints against counting, element by element."""

from __future__ import annotations

import math

import numpy as np
import pytest

from costmodel.extract.access import Access, accesses_of, footprint, shares_of_sets
from costmodel.extract.statement import StoreSite, statements_of
from sketch.lang.expr import Const
from sketch.lower import lower
from sketch.nest.loopnest import (
    Affine,
    Buffer,
    BufferLoad,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Scope,
    Store,
    row_major,
)
from sketch.population.population import Population


def buffer(name: str, *shape: int, scope: Scope = Scope.INPUT) -> Buffer:
    return Buffer(
        name, "float32", shape, row_major(shape), (1,) * len(shape), scope, math.prod(shape)
    )


def nest_of(store: Store, *loops: tuple[LoopVar, int, int]) -> LoopNest:
    node: Node = store
    for var, extent, stride in reversed(loops):
        node = Loop(var, extent, stride, LoopKind.SERIAL, "spatial", (node,))
    return LoopNest("test", (), (), (node,))


def touched(access: Access, level: int) -> set[tuple[int, ...]]:
    """Elements the loops ``level ..`` touch while the others stand at zero, one by one."""
    loads = [load.indices for load in access.site.loads() if load.buffer is access.buffer] or [
        access.site.store.indices
    ]
    inner = access.site.loops[level:]
    extents = tuple(int(loop.extent) for loop in inner)
    grid = np.indices(extents, sparse=True)
    at = {loop.var: trip * int(loop.stride) for loop, trip in zip(inner, grid, strict=True)}
    found: set[tuple[int, ...]] = set()
    for indices in loads:
        forms = [index for index in indices if isinstance(index, Affine)]
        values = [f.const + sum(c * at.get(var, 0) for var, c in f.terms) for f in forms]
        columns = [np.broadcast_to(value, extents).ravel().tolist() for value in values]
        found.update(zip(*columns, strict=True) if columns else [()])
    return found


def counted(access: Access, level: int) -> int:
    return len(touched(access, level))


def levels(site: StoreSite) -> range:
    return range(len(site.loops) + 1)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 2, 3])
def test_windows_are_exact(stride: int, kernel: int) -> None:
    i0, i1, k = LoopVar("i0"), LoopVar("i1"), LoopVar("k")
    x = buffer("x", 200)
    y = buffer("y", 12, scope=Scope.OUTPUT)
    load = BufferLoad(x, (Affine(((i0, stride), (i1, stride), (k, 1))),))
    store = Store((y,), (Affine(((i0, 1), (i1, 1))),), (load,))
    nest = nest_of(store, (i0, 3, 4), (i1, 4, 1), (k, kernel, 1))
    (statement,) = statements_of(nest)
    written, read = accesses_of(statement)
    site = statement.main
    for access in (written, read):
        exact = [counted(access, level) for level in levels(site)]
        # With a stride over the kernel there are gaps that only the number of points knows about.
        assert footprint(access, site.loops, 64).elements == exact


def test_stencil_offsets_widen_the_range() -> None:
    i = LoopVar("i")
    x, y = buffer("x", 50), buffer("y", 48, scope=Scope.OUTPUT)
    left, right = (BufferLoad(x, (Affine(((i, 1),), c),)) for c in (0, 2))
    store = Store((y,), (Affine(((i, 1),)),), (left + right,))
    (statement,) = statements_of(nest_of(store, (i, 48, 1)))
    _, read = accesses_of(statement)
    assert footprint(read, statement.main.loops, 64).elements == [50.0, 3.0]


def test_blocks_of_a_packed_buffer_count_once() -> None:
    block, inner, k = LoopVar("block"), LoopVar("inner"), LoopVar("k")
    packed = Buffer("w", "float32", (64, 10, 16), (10, 16, 1), (16, 1, 1), Scope.CONSTANT, 640)
    y = buffer("y", 64, scope=Scope.OUTPUT)
    index = (Affine(((block, 1),)), Affine(((k, 1),)), Affine(((inner, 1),)))
    store = Store((y,), (Affine(((block, 1), (inner, 1))),), (BufferLoad(packed, index),))
    nest = nest_of(store, (block, 4, 16), (k, 10, 1), (inner, 16, 1))
    (statement,) = statements_of(nest)
    _, read = accesses_of(statement)
    result = footprint(read, statement.main.loops, 64)
    assert result.elements == [640.0, 160.0, 16.0, 1.0]
    assert result.lines == [40.0, 10.0, 1.0, 1.0]
    assert read.address_step(statement.main.loops[0]) == 160.0


def test_lines_of_short_rows_join() -> None:
    row, channel = LoopVar("row"), LoopVar("channel")
    x, y = buffer("x", 64, 4), buffer("y", 64, 4, scope=Scope.OUTPUT)
    index = (Affine(((row, 1),)), Affine(((channel, 1),)))
    store = Store((y,), index, (BufferLoad(x, index),))
    (statement,) = statements_of(nest_of(store, (row, 64, 1), (channel, 4, 1)))
    _, read = accesses_of(statement)
    assert footprint(read, statement.main.loops, 64).lines == [16.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("columns", "shares"),
    [
        (1024, [1.0, 1 / 16, 1 / 64]),  # rows of a page each: their parts are at the same place
        (512, [1.0, 1 / 8, 1 / 64]),  # half of a page
        (48, [1.0, 1.0, 1 / 64]),  # a multiple of 64 bytes: everywhere
    ],
)
def test_rows_that_are_pages_apart_lie_in_few_sets(columns: int, shares: list[float]) -> None:
    """Of blocks of columns: [all of them, rows of one block, one element]."""
    width = min(columns // 2, 64)
    block, row, column = LoopVar("block"), LoopVar("row"), LoopVar("column")
    x, y = buffer("x", 64, columns), buffer("y", 64, columns, scope=Scope.OUTPUT)
    index = (Affine(((row, 1),)), Affine(((block, width), (column, 1))))
    store = Store((y,), index, (BufferLoad(x, index),))
    loops = (block, columns // width, 1), (row, 64, 1), (column, width, 1)
    (statement,) = statements_of(nest_of(store, *loops))
    _, read = accesses_of(statement)
    found = shares_of_sets(read, statement.main.loops, 64, 4096.0)
    assert [found[0], found[1], found[3]] == shares


def test_constants_touch_nothing() -> None:
    i = LoopVar("i")
    y = buffer("y", 8, scope=Scope.OUTPUT)
    store = Store((y,), (Affine(((i, 1),)),), (Const(0.0, "float32"),))
    (statement,) = statements_of(nest_of(store, (i, 8, 1)))
    assert [access.buffer for access in accesses_of(statement)] == [y]


def test_footprints_of_sketches_bound_what_is_touched(populations: list[Population]) -> None:
    for population in populations:
        row = population.row(0)
        for statement in statements_of(lower(population.sketch, row)):
            for access in accesses_of(statement):
                _check(access)


def _check(access: Access) -> None:
    """Between the product of the distinct values of each dimension and that of their hulls."""
    site, buffer = access.site, access.buffer
    closed = footprint(access, site.loops, 64).elements
    for level in levels(site):
        if math.prod(int(loop.extent) for loop in site.loops[level:]) > 20_000:
            continue
        least = most = 1
        columns = zip(*touched(access, level), strict=True)
        for values, extent, step in zip(columns, buffer.shape, buffer.steps, strict=True):
            limit = int(extent) // int(step)
            least *= min(len(set(values)), limit)
            most *= min((max(values) - min(values)) // int(step) + 1, limit)
        assert least <= closed[level] <= most
