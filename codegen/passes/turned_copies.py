"""Turned copies: what lanes would read far apart, copied so that they read neighbours.

    for points: for p in 0..P: vectorized i: turned[points, p, i] = x[points, i, p]

Lanes that lie far apart are read one after another.  Such a loop is emitted as squares of vectors
that are turned in registers (``codegen.llvm.turned_blocks``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from codegen.passes.affine import substitute_affine
from codegen.passes.rewrite import substitute_expr, substitute_predicates
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import (
    Affine,
    Buffer,
    BufferLoad,
    Loop,
    LoopKind,
    LoopVar,
    Node,
    Predicate,
    Scope,
    Store,
)

# What squares are made of: elements of so many bytes, at least so many a side.
_BYTES: Final = 4
LEAST_SIDE: Final = 4
_MOST_LANES: Final = 16


def fills_squares(lanes: Loop, dtype: str) -> bool:
    """Whether a loop is lanes that a square may have, of elements that it may be made of."""
    if lanes.kind is not LoopKind.VECTORIZED or lanes.axis_kind != "spatial" or lanes.clip:
        return False
    fits = int(lanes.stride) == 1 and LEAST_SIDE <= int(lanes.extent) <= _MOST_LANES
    return fits and size_of(dtype) == _BYTES


def turned_copy(
    load: BufferLoad,
    points: Sequence[Loop],
    terms: Sequence[Loop],
    lanes: Loop,
    predicates: tuple[Predicate, ...] = (),
) -> tuple[BufferLoad, Node]:
    """The same element in a new private buffer, and the loops that fill it.

    Args:
        load: an element whose lanes lie far apart.
        points: loops whose variables ``load`` has besides, outermost first.
        terms: loops that walk along neighbours, outermost first, as one loop would.
        lanes: the loop of the lanes.
        predicates: without the variables of ``terms``; what is copied fulfils them.
    """
    at, size = _places(points, terms, lanes)
    buffer = load.buffer
    name = f"{buffer.name}.turned"
    copy = Buffer(name, buffer.dtype, (size,), (1,), (1,), Scope.LOCAL, size)
    last = terms[-1]
    fresh = {loop.var: LoopVar(f"{loop.var.name}.turned") for loop in (*points, lanes, last)}
    values = {loop.var: Affine(()) for loop in terms}  # one loop in place of all
    values |= {var: Affine(((new, 1),)) for var, new in fresh.items()}
    store = Store(
        (copy,),
        (substitute_affine(at, values),),
        (substitute_expr(load, values),),
        predicates=substitute_predicates(predicates, values),
    )
    node: Node = replace(lanes, var=fresh[lanes.var], body=(store,))
    node = Loop(fresh[last.var], _count(terms), 1, LoopKind.SERIAL, "spatial", (node,))
    for loop in reversed(points):
        own = fresh[loop.var]
        node = Loop(own, loop.extent, loop.stride, LoopKind.SERIAL, "spatial", (node,))
    return BufferLoad(copy, (at,)), node


def _count(terms: Sequence[Loop]) -> int:
    """Trips of one loop in place of all."""
    return int(terms[0].extent) * int(terms[0].stride)


def _places(points: Sequence[Loop], terms: Sequence[Loop], lanes: Loop) -> tuple[Affine, int]:
    """Where an element lies in the copy, and how many there are: lanes are neighbours, then come
    the terms, then the points, each so far apart that they do not meet.
    """
    width = int(lanes.extent)
    form = Affine(((lanes.var, 1), *((loop.var, width) for loop in terms)))
    size = width * _count(terms)
    for loop in reversed(points):
        apart = -(-size // int(loop.stride))
        form += Affine(((loop.var, apart),))
        size = apart * int(loop.stride) * int(loop.extent)
    return form, size
