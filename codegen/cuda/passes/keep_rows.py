"""Elements that several loops of a thread read one after another stay in its registers.

    serial k in 0..1024..256                 local row[4][4]
      vector x[4] <- A[k + 4*t ...]          unrolled k: x <- A[k + 4*t ...];  row[k / 256] = x
      maximum of x                             maximum of x
    serial k in 0..1024..256           ->    unrolled k: x = row[k / 256]
      vector x[4] <- A[k + 4*t ...]
      sum of exp(x - maximum)                  sum of exp(x - maximum)

Rows of softmax and of normalisations are read once from global memory, where they are short enough.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from codegen.cuda.device import Declare, DeviceFunction, DeviceNode, For, Move, walk_device
from sketch.lang.dtypes import size_of
from sketch.lang.expr import Binary, Const
from sketch.nest.loopnest import (
    Affine,
    Buffer,
    BufferLoad,
    Index,
    LoopVar,
    Predicate,
    Quasi,
    Scope,
    Store,
)

# Bytes of a thread's registers for rows: what a block of 1,024 threads leaves beside its own.
_MOST_BYTES: Final = 128
_LEAST_READS: Final = 2


def keep_rows(function: DeviceFunction) -> DeviceFunction:
    """The function with repeated reads from registers."""
    rows = _rows_of(function)
    if not rows:
        return function
    filled: set[Buffer] = set()
    body: list[DeviceNode] = []
    for node in function.body:
        found = {} if not isinstance(node, For) else _moves_in(node, rows)
        body += [Declare(row) for row in dict.fromkeys(found.values()) if row not in filled]
        if isinstance(node, For) and found:
            node = _with_rows(node, found, filled)
        body.append(node)
    return replace(function, body=tuple(body))


def _rows_of(function: DeviceFunction) -> Mapping[Hashable, Buffer]:
    """A private buffer for all that is read several times, while registers last."""
    written = set(_written(function.body))
    reads: dict[Hashable, list[tuple[For, Move]]] = {}
    for loop in function.body:
        if isinstance(loop, For) and not loop.clip:
            for key, move in _keyed(loop):
                if move.buffer not in written:
                    reads.setdefault(key, []).append((loop, move))
    rows: dict[Hashable, Buffer] = {}
    room = _MOST_BYTES
    for key, places in reads.items():
        loop, move = places[0]
        length = int(move.vector.size)
        size = loop.extent * length * size_of(move.buffer.dtype)
        if len({id(other) for other, _ in places}) >= _LEAST_READS and size <= room:
            room -= size
            shape = (loop.extent, length)
            rows[key] = Buffer(
                f"{move.buffer.name}.row", move.buffer.dtype, shape, (length, 1), (1, 1),
                Scope.LOCAL, loop.extent * length,
            )  # fmt: skip
    return rows


def _written(nodes: tuple[DeviceNode, ...]) -> Iterator[Buffer]:
    for node in walk_device(nodes):
        if isinstance(node, Store):
            yield from node.targets
        elif isinstance(node, Move) and not node.loads:
            yield node.buffer


def _keyed(loop: For) -> Iterator[tuple[Hashable, Move]]:
    """The pieces that a loop reads, with what two loops have alike that read the same."""
    for node in loop.body:
        if not isinstance(node, Move) or not node.loads:
            continue
        indices = [index for index in node.indices if isinstance(index, Affine)]
        if len(indices) == len(node.indices):
            places = tuple(_Form.of(index, loop.var) for index in indices)
            guards = tuple(_guard(guard, loop.var) for guard in node.predicates)
            length = int(node.vector.size)
            yield (id(node.buffer), length, loop.extent, loop.stride, places, guards), node


@dataclass(frozen=True, slots=True)
class _Form:
    """An affine form, the same for two loops where it differs in their variables alone."""

    own: int
    terms: frozenset[tuple[LoopVar, int]]
    const: int

    @staticmethod
    def of(form: Affine, var: LoopVar) -> _Form:
        others = frozenset(term for term in form.terms if term[0] is not var)
        return _Form(form.coefficient(var), others, form.const)


def _guard(guard: Predicate, var: LoopVar) -> tuple[_Form, int, int]:
    return _Form.of(guard.index, var), guard.low, guard.high


def _moves_in(loop: For, rows: Mapping[Hashable, Buffer]) -> dict[int, Buffer]:
    """The rows that a loop reads, by the identity of the node that does."""
    return {id(move): rows[key] for key, move in _keyed(loop) if key in rows and not loop.clip}


def _with_rows(loop: For, found: Mapping[int, Buffer], filled: set[Buffer]) -> For:
    """The loop, unrolled so that its rows are registers; it fills those that none has filled."""
    body: list[DeviceNode] = []
    for node in loop.body:
        row = found.get(id(node))
        if row is None or not isinstance(node, Move):
            body.append(node)
            continue
        if row not in filled:
            body.append(node)
        body.append(_copy(loop, node, row, row not in filled))
        filled.add(row)
    return replace(loop, unroll=True, body=tuple(body))


def _copy(loop: For, move: Move, row: Buffer, fills: bool) -> For:
    """Between the vector of a piece and its place in a row."""
    n = LoopVar(f"{row.name}.n")
    place: tuple[Index, ...] = (_trip(loop), Affine(((n, 1),)))
    own: tuple[Index, ...] = (Affine(((n, 1),)),)
    if fills:
        store = Store((row,), place, (BufferLoad(move.vector, own),), None, move.predicates)
    else:
        store = Store((move.vector,), own, (BufferLoad(row, place),), None, move.predicates)
    return For(n, int(move.vector.size), 1, True, (), (store,))


def _trip(loop: For) -> Index:
    """The number of a trip."""
    if loop.stride == 1:
        return Affine(((loop.var, 1),))
    number = Binary("trunc_div", loop.var, Const(loop.stride, "int64"), "int64")
    return Quasi(number, 0, loop.extent - 1)
