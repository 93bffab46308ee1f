"""Turned blocks: copies whose lanes lie far apart, a square of vectors at a time.

    for p in 0..P:                          for p in 0..P step 16:
      for lane in 0..16:                      16 vectors of x along p, turned in registers
        y[p, lane] = x[lane, p]      ->       16 vectors of y along the lanes

A gather reads one element after another; a square takes four shuffles for each of its vectors.
The last square begins where it ends with the loop: what two squares write is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from codegen.llvm.addresses import ALWAYS, Guard
from codegen.llvm.registers import written_buffers
from codegen.llvm.statements import Statements
from codegen.llvm.unrolled_copies import nest_of
from codegen.llvm.values import SSA_TYPES, SsaValue, mask_literal, vector_type
from codegen.passes.affine import flatten
from codegen.passes.rewrite import Nodes, substitute_store, with_body
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import (
    Affine,
    Branch,
    BufferLoad,
    Case,
    Loop,
    LoopKind,
    LoopVar,
    Scope,
    Store,
)

_BYTES: Final = 4
_SIDES: Final = (4, 8, 16)
_QUARTER: Final = 4  # lanes of 128 bits


@dataclass(frozen=True, slots=True)
class _Copy:
    """A loop of such copies.

    Attributes:
        loop: walks along what is read.
        unrolled: loops around the lanes.
        lanes: walk along what is written.
        store: the copy.
        load: what it reads.
    """

    loop: Loop
    unrolled: tuple[Loop, ...]
    lanes: Loop
    store: Store
    load: BufferLoad

    @property
    def width(self) -> int:
        """Lanes that there are: as many as the square has, or less."""
        return int(self.lanes.extent)

    @property
    def side(self) -> int:
        """Of the square."""
        return next(side for side in _SIDES if side >= self.width)


class TurnedBlocks:
    """Emits loops of copies as squares."""

    def __init__(
        self,
        statements: Statements,
        counted: Callable[..., None],
        emit: Callable[[Nodes], None],
    ) -> None:
        """``counted`` and ``emit``: how loops of some trips, and other nodes, are written."""
        self._statements, self._evaluator = statements, statements.evaluator
        self._scope, self._writer = statements.scope, statements.writer
        self._counted, self._emit = counted, emit
        self._kept: list[Store] = []  # places are known by the identity of their indices

    def emit(self, loop: Loop) -> bool:
        """All trips of a loop; False, with nothing written, for other loops."""
        cases = _cases_of(loop)
        if cases is not None:
            self._emit((cases,))
            return True
        copy = _copy_of(loop)
        if copy is None or not self._is_in_memory(copy):
            return False
        first, inside = LoopVar(f"{loop.var.name}.square"), LoopVar(f"{loop.var.name}.side")
        store = substitute_store(copy.store, {loop.var: Affine(((first, 1), (inside, 1)))})
        self._kept.append(store)
        trips, side = int(loop.extent), copy.side
        whole = trips // side * side
        if whole > side:
            self._counted(
                first,
                "0",
                str(whole),
                side,
                (0, whole - side),
                written_buffers(loop.body),
                lambda: self._squares(copy, store, inside, side),
            )
        starts = [0] if whole == side or not whole else []
        for start in [*starts, *([trips - side] if 0 < whole < trips else [])]:
            self._scope.static[first] = start
            self._squares(copy, store, inside, min(trips, side))
            del self._scope.static[first]
        return True

    def _is_in_memory(self, copy: _Copy) -> bool:
        """Whether both arrays are, and which lanes are written is all that is left to decide."""
        bases, store = self._evaluator.memory.bases, copy.store
        if copy.load.buffer not in bases or store.targets[0] not in bases:
            return False
        scope, statements = self._scope, self._statements
        outer = scope.lane, scope.width, scope.lane_step
        scope.enter_lanes(copy.lanes.var, copy.side, int(copy.lanes.stride))
        found = [statements.tests(store.predicates) for _ in self._copies(copy.unrolled)]
        scope.enter_lanes(*outer)
        return not any(tests is not None and tests.scalar for tests in found)

    def _copies(self, unrolled: Sequence[Loop]) -> Iterator[None]:
        """Once for each trip of unrolled loops, whose variables have its values."""
        steps = [range(0, int(x.extent) * int(x.stride), int(x.stride)) for x in unrolled]
        for values in product(*steps):
            self._scope.static.update(zip((x.var for x in unrolled), values, strict=True))
            yield
        for loop in unrolled:
            self._scope.static.pop(loop.var, None)

    def _squares(self, copy: _Copy, store: Store, inside: LoopVar, trips: int) -> None:
        """The squares at one place: ``trips`` of their columns."""
        scope, lanes, side = self._scope, copy.lanes, copy.side
        outer = scope.lane, scope.width, scope.lane_step
        statements = self._statements
        for _ in self._copies(copy.unrolled):
            scope.enter_lanes(inside, side, 1)
            rows = []
            for number in range(copy.width):
                scope.static[lanes.var] = number * int(lanes.stride)
                rows.append(self._row(store, trips))
            rows += ["zeroinitializer"] * (side - copy.width)
            del scope.static[lanes.var]
            scope.enter_lanes(lanes.var, side, int(lanes.stride))
            dtype = store.targets[0].dtype
            tests = statements.tests(store.predicates)
            columns = [] if tests is None else self._turned(rows, dtype)[:trips]
            for number, column in enumerate(columns):
                assert tests is not None
                scope.static[inside] = number
                guard = self._guard(statements.mask(tests), copy.width)
                value = SsaValue(column, dtype, side)
                statements.store(store.targets[0], store, value, guard)
            scope.static.pop(inside, None)
            scope.enter_lanes(*outer)

    def _guard(self, mask: str | None, width: int) -> Guard:
        """Lanes of a mask, and of them the first ones."""
        side = self._scope.width
        if width < side:
            first = mask_literal(tuple(n < width for n in range(side)))
            mask = first if mask is None else self._evaluator.memory.both(first, mask, side)
        return ALWAYS if mask is None else Guard(None, mask)

    def _row(self, store: Store, trips: int) -> str:
        """What one lane reads; zeros where it writes nothing."""
        (load,) = store.values
        assert isinstance(load, BufferLoad)
        scope, side = self._scope, self._scope.width
        tests = self._statements.tests(store.predicates)
        if tests is None:
            return "zeroinitializer"
        condition = scope.in_ranges(tests.scalar)[0] if tests.scalar else None
        mask = None if trips == side else mask_literal(tuple(n < trips for n in range(side)))
        whole = condition is None and mask is None
        self._evaluator.begin(ALWAYS if whole else Guard(condition, mask))
        found = self._evaluator.load(load.buffer, load.indices).ref
        self._evaluator.begin(ALWAYS)
        return found

    def _turned(self, rows: Sequence[str], dtype: str) -> list[str]:
        """The columns of a square: quarters of registers first, then their order."""
        side = len(rows)
        kind = vector_type(SSA_TYPES[dtype], side)
        # parts[k][g]: in quarter q column 4 * q + k of the rows 4 * g to 4 * g + 3
        parts: list[list[str]] = [[] for _ in range(_QUARTER)]
        for group in range(0, side, _QUARTER):
            a, b, c, d = rows[group : group + _QUARTER]
            pairs = [
                (self._pick(kind, side, a, b, half), self._pick(kind, side, c, d, half))
                for half in ((0, 0, 1, 1), (2, 2, 3, 3))
            ]
            for k in range(_QUARTER):
                first, second = pairs[k // 2]
                start = 2 * (k % 2)
                order = (start, start + 1)
                parts[k].append(self._join(kind, side, first, second, order))
        columns = [""] * side
        for k, quarters in enumerate(parts):
            for q, column in enumerate(self._ordered(kind, side, quarters)):
                columns[_QUARTER * q + k] = column
        return columns

    def _pick(self, kind: str, side: int, lhs: str, rhs: str, lanes: Sequence[int]) -> str:
        """Lanes of two vectors by turns, in each quarter."""
        order = [
            quarter + lane + (side if n % 2 else 0)
            for quarter in range(0, side, _QUARTER)
            for n, lane in enumerate(lanes)
        ]
        return self._shuffled(kind, lhs, rhs, order)

    def _join(self, kind: str, side: int, lhs: str, rhs: str, pair: tuple[int, int]) -> str:
        """Two lanes of a vector, then of another, in each quarter."""
        order = [
            quarter + lane + offset
            for quarter in range(0, side, _QUARTER)
            for offset in (0, side)
            for lane in pair
        ]
        return self._shuffled(kind, lhs, rhs, order)

    def _ordered(self, kind: str, side: int, vectors: list[str]) -> list[str]:
        """Squares of quarters, turned: by halves, as a square of vectors is."""
        even, odd = [0, 2], [1, 3]
        match vectors:
            case [_]:
                return vectors
            case [a, b]:
                return [self._quarters(kind, side, a, b, [n]) for n in range(2)]
            case _:
                a, b, c, d = vectors
        found: list[str] = [""] * _QUARTER
        for n, picked in enumerate((even, odd)):
            low = self._quarters(kind, side, a, b, picked)
            high = self._quarters(kind, side, c, d, picked)
            for turn, place in enumerate((even, odd)):
                found[n + 2 * turn] = self._quarters(kind, side, low, high, place)
        return found

    def _quarters(self, kind: str, side: int, lhs: str, rhs: str, taken: Sequence[int]) -> str:
        """Some quarters of a vector, then those of another."""
        order = [
            start + _QUARTER * q + n for start in (0, side) for q in taken for n in range(_QUARTER)
        ]
        return self._shuffled(kind, lhs, rhs, order)

    def _shuffled(self, kind: str, lhs: str, rhs: str, order: Sequence[int]) -> str:
        lanes = ", ".join(f"i32 {lane}" for lane in order)
        text = f"shufflevector {kind} {lhs}, {kind} {rhs}, <{len(order)} x i32> <{lanes}>"
        return self._writer.emit(text)


def _cases_of(loop: Loop) -> Branch | None:
    """Cases with the loop inside, some of which is copies; None for other loops."""
    (branch,) = loop.body if len(loop.body) == 1 else (None,)
    if not isinstance(branch, Branch) or branch.index.coefficient(loop.var):
        return None
    inside = [(case, with_body(loop, case.body)) for case in branch.cases]
    if not any(_copy_of(own) is not None for _, own in inside):
        return None
    return Branch(branch.index, tuple(Case(c.low, c.high, (own,)) for c, own in inside))


def _copy_of(loop: Loop) -> _Copy | None:
    """None for loops of anything else."""
    if loop.kind is not LoopKind.SERIAL or int(loop.stride) != 1 or loop.axis_kind != "spatial":
        return None
    (_, *unrolled), lanes, store = nest_of(loop)
    if lanes is None or store is None or store.reducer is not None or len(store.targets) > 1:
        return None
    (value,), target = store.values, store.targets[0]
    if not isinstance(value, BufferLoad) or value.buffer is target:
        return None
    if value.buffer.dtype != target.dtype or size_of(target.dtype) != _BYTES:
        return None
    fits = _QUARTER <= int(lanes.extent) <= max(_SIDES) and int(loop.extent) >= _QUARTER
    if not fits or target.scope is Scope.TILE:
        return None
    if any(p.index.coefficient(loop.var) for p in store.predicates):
        return None
    read, quasi = flatten(value.buffer, value.indices)
    written, more = flatten(target, store.indices)
    apart = read.coefficient(lanes.var) * int(lanes.stride)
    along = written.coefficient(lanes.var) * int(lanes.stride)
    if quasi or more or read.coefficient(loop.var) != 1 or apart in (0, 1) or along != 1:
        return None
    return _Copy(loop, tuple(unrolled), lanes, store, value)
