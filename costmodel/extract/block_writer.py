"""From a tape to block code.

Values of a tape are arrays whose last axis is the programs; each takes a row of memory for every
index of the other axes, which a later value gets once nothing reads it any more.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from inspect import unwrap
from typing import Any, Final, cast

import numpy as np

from costmodel.extract.analysis import highest
from costmodel.extract.block_code import BlockCode, Logs, Segment
from costmodel.extract.block_forms import FORMS, PairForm
from costmodel.extract.block_machine import OPERATIONS, ROW_BYTES, ROWS, STEPS
from costmodel.extract.quantity import count_true, places_of, stack, take
from sketch.population.plan import needed
from sketch.population.tape import Key, Tape, cast_to, part

Shape = tuple[int, ...]

_COPY: Final = OPERATIONS["copy"]
_KINDS: Final = {float: "F", int: "I", bool: "B"}


class _NoBlockCode(Exception):
    """An operation that only NumPy can do."""


def block_code(tape: Tape, places: Sequence[int], dtype: type) -> BlockCode | None:
    """The block code of a tape of features; None where some operation has none.

    Args:
        tape: its inputs are 0 .. P-1 and the decisions.
        places: row of the output of each result.
        dtype: of the output, float32 or float64.
    """
    wanted: dict[int, list[int]] = {}
    for place, result in zip(places, tape.results, strict=True):
        if result.slot is not None:
            wanted.setdefault(result.slot, []).append(place)
    try:
        return _Writer(tape, wanted, np.dtype(dtype).itemsize).written()
    except _NoBlockCode:
        return None


class _Writer:
    """Writes one tape.

    By slot of the tape: ``_kinds`` (as of ``FORMS``; empty where there are no rows), ``_shapes``
    without the programs, ``_at`` the byte where the first row starts.
    """

    def __init__(self, tape: Tape, wanted: Mapping[int, Sequence[int]], itemsize: int) -> None:
        self._tape, self._wanted = tape, wanted
        self._kept, self._last = needed(tape, wanted)
        count = len(tape.constants)
        self._kinds, self._at = [""] * count, [0] * count
        self._shapes: list[Shape] = [()] * count
        self._code = array("i")
        self._segments: list[Segment] = []
        self._begun = self._count = 0
        self._free: defaultdict[int, list[int]] = defaultdict(list)
        self._single = self._free[1]
        self._inputs = len(tape.inputs) - 1
        for row, slot in enumerate(tape.inputs[1:]):
            self._kinds[slot], self._at[slot] = "I", row * ROW_BYTES
        self._constants = self._hold_constants()
        self._kept_rows = self._top = (self._inputs + len(self._constants)) * ROW_BYTES
        self._stores = {
            kind: OPERATIONS[f"store {itemsize} {'F' if kind == 'F' else 'I'}"] for kind in "FIB"
        }

    def _hold_constants(self) -> list[float]:
        held: list[float] = []
        for slot in sorted(self._last.keys() - {*self._tape.targets, *self._tape.inputs}):
            value = self._tape.constants[slot]
            kind, numbers = _KINDS.get(type(value), ""), [value]
            if isinstance(value, np.ndarray):
                if value.dtype != np.float64 or value.shape[-1:] != (1,):
                    raise _NoBlockCode
                kind, numbers, self._shapes[slot] = "F", value.ravel().tolist(), value.shape[:-1]
            elif kind in ("I", "B"):
                if not np.can_cast(np.min_scalar_type(value), np.int64):
                    raise _NoBlockCode
                numbers = np.array(numbers, np.int64).view(np.float64).tolist()
            if kind:
                self._kinds[slot] = kind
                self._at[slot] = (self._inputs + len(held)) * ROW_BYTES
                held += numbers
        return held

    def written(self) -> BlockCode:
        """The code.

        Raises:
            _NoBlockCode: an operation has none.
        """
        tape, kinds, wanted = self._tape, self._kinds, self._wanted
        functions, sources, targets = tape.functions, tape.sources, tape.targets
        for slot in tape.inputs:
            self._store(slot)
        shapes = self._shapes
        for n in self._kept:
            read, target, form = sources[n], targets[n], None
            if len(read) == 2:
                a, b = read
                form = FORMS.get((functions[n], kinds[a], kinds[b]))
            if form is None:
                self._other(functions[n], read, target)
                self._give_up(read, n)
            elif form.real or shapes[a] or shapes[b]:
                self._combine(form, read, target)
                self._give_up(read, n)
            else:
                self._two(form, a, b, target, n)
            if target in wanted:
                self._store(target)
        self._end_segment(None)
        return BlockCode(
            # The machine looks for steps behind every operation.
            np.array(self._code + array("i", [0] * STEPS), dtype=np.int32),
            tuple(self._segments),
            np.array(self._constants, dtype=np.float64),
            self._top // ROW_BYTES,
            self._inputs,
        )

    def _store(self, slot: int) -> None:
        places = self._wanted.get(slot, ())
        for place in places:
            if self._shapes[slot] or not self._kinds[slot]:
                raise _NoBlockCode
            store = self._stores[self._kinds[slot]]
            self._one_row(store, place, self._at[slot])
        if places and slot not in self._last:
            self._release(slot)

    def _give_up(self, read: Sequence[int], n: int) -> None:
        last = self._last
        for slot in read:
            if last[slot] == n:
                last[slot] = -1  # it may be read twice
                self._release(slot)

    def _release(self, slot: int) -> None:
        at, shape = self._at[slot], self._shapes[slot]
        if at >= self._kept_rows:
            (self._free[math.prod(shape)] if shape else self._single).append(at)

    def _take(self, rows: int) -> int:
        free = self._free[rows]
        if free:
            return free.pop()
        self._top += rows * ROW_BYTES
        return self._top - rows * ROW_BYTES

    def _new(self, slot: int, kind: str, shape: Shape = ()) -> int:
        at = self._take(math.prod(shape) if shape else 1)
        self._kinds[slot], self._shapes[slot], self._at[slot] = kind, shape, at
        return at

    def _one_row(self, operation: int, target: int, a: int, b: int = 0, c: int = 0) -> None:
        self._code.extend((operation + ROWS, target, a, b, c))
        self._count += 1

    def _emit(
        self, operation: int, shape: Shape, target: int, *operands: tuple[int, Shape]
    ) -> None:
        """Note an operation; operands are places and shapes, which broadcast to ``shape``."""
        if not shape:
            self._one_row(operation, target, *[at for at, _ in operands])
            return
        rows, unused = shape[-1], (0,) * (STEPS - 1 - len(operands))
        for run in _runs(shape, *[own for _, own in operands]):
            firsts = [at + first for (at, _), (first, _) in zip(operands, run, strict=True)]
            steps = [step for _, step in run]
            self._code.extend((operation + rows * ROWS, target, *firsts, *unused))
            if rows > 1:
                self._code.extend((ROW_BYTES, *steps, *unused))
            self._count += 1
            target += rows * ROW_BYTES

    def _two(self, form: PairForm, a: int, b: int, target: int, n: int) -> None:
        """One row with one: the result may take the row of an operand."""
        last, at, free = self._last, self._at, self._single
        one, two = at[a], at[b]
        if last[a] == n:
            last[a] = -1  # it may be read twice
            if one >= self._kept_rows:
                free.append(one)
        if last[b] == n:
            last[b] = -1
            if two >= self._kept_rows:
                free.append(two)
        place = at[target] = free.pop() if free else self._take(1)
        self._kinds[target] = form.kind
        if form.swapped:
            one, two = two, one
        self._code.extend((form.operation + ROWS, place, one, two, 0))
        self._count += 1

    def _combine(self, form: PairForm, read: Sequence[int], target: int) -> None:
        """Two operands of any shapes, which may have to become float64."""
        operands, made = [], []
        for slot, real in zip(read, form.real or (False, False), strict=True):
            at, shape = self._at[slot], self._shapes[slot]
            if real:
                rows = math.prod(shape)
                made.append((rows, self._take(rows)))
                self._emit(OPERATIONS["real"], shape, made[-1][1], (at, shape))
                at = made[-1][1]
            operands.append((at, shape))
        shape = _broadcast(*[own for _, own in operands])
        place = self._new(target, form.kind, shape)
        self._emit(form.operation, shape, place, *operands[:: -1 if form.swapped else 1])
        for rows, at in made:
            self._free[rows].append(at)

    def _other(self, function: Callable[..., Any], read: Sequence[int], target: int) -> None:
        fixed = function if isinstance(function, partial) else None
        known = _OTHERS.get(function if fixed is None else fixed.func)
        if known is None:
            raise _NoBlockCode
        known(self, target, *read, **(fixed.keywords if fixed is not None else {}))

    def _require(self, slot: int, kinds: str) -> None:
        if not self._kinds[slot] or self._kinds[slot] not in kinds:
            raise _NoBlockCode

    def _copy(self, slot: int, to: int) -> None:
        """The values of a slot as float64."""
        self._require(slot, "FIB")
        shape = self._shapes[slot]
        operation = _COPY if self._kinds[slot] == "F" else OPERATIONS["real"]
        self._emit(operation, shape, to, (self._at[slot], shape))

    def _stack(self, target: int, _programs: int, *slots: int) -> None:
        at = self._new(target, "F", (len(slots),))
        for slot in slots:
            if self._shapes[slot]:
                raise _NoBlockCode
            if self._kinds[slot] == "F":
                self._one_row(_COPY, at, self._at[slot])
            else:
                self._copy(slot, at)
            at += ROW_BYTES

    def _cast(self, target: int, slot: int, dtype: type) -> None:
        if dtype is not np.float64:
            raise _NoBlockCode
        self._copy(slot, self._new(target, "F", self._shapes[slot]))

    def _ceil(self, target: int, slot: int) -> None:
        self._require(slot, "F")
        self._one("ceil", target, slot)

    def _negative(self, target: int, slot: int) -> None:
        self._require(slot, "FI")
        self._one(f"negative {self._kinds[slot]}", target, slot)

    def _one(self, operation: str, target: int, slot: int) -> None:
        shape = self._shapes[slot]
        at = self._new(target, self._kinds[slot], shape)
        self._emit(OPERATIONS[operation], shape, at, (self._at[slot], shape))

    def _log2(self, target: int, slot: int) -> None:
        self._require(slot, "F")
        rows = math.prod(self._shapes[slot])
        source = self._at[slot] // ROW_BYTES
        to = self._new(target, "F", self._shapes[slot]) // ROW_BYTES
        self._end_segment(Logs(slice(source, source + rows), slice(to, to + rows)))

    def _end_segment(self, logs: Logs | None) -> None:
        self._segments.append(Segment(self._begun, self._count, logs))
        self._begun, self._count = len(self._code), 0

    def _where(self, target: int, condition: int, one: int, other: int) -> None:
        self._require(condition, "B")
        self._require(one, "FI")
        self._require(other, self._kinds[one])
        operands = [(self._at[slot], self._shapes[slot]) for slot in (condition, one, other)]
        shape = _broadcast(*[own for _, own in operands])
        at = self._new(target, self._kinds[one], shape)
        self._emit(OPERATIONS["where"], shape, at, *operands)

    def _part(self, target: int, slot: int, key: Key) -> None:
        self._require(slot, "FIB")
        rows, shape = _chosen(self._shapes[slot], key)
        at, source = self._new(target, self._kinds[slot], shape), self._at[slot]
        for n, row in enumerate(rows):
            self._one_row(_COPY, at + n * ROW_BYTES, source + row * ROW_BYTES)

    def _places(self, target: int, index: int, _programs: int) -> None:
        """What ``_gather`` reads is the index alone: programs are where they are."""
        self._require(index, "I")
        shape = self._shapes[index]
        at = self._new(target, "P", shape)
        self._emit(_COPY, shape, at, (self._at[index], shape))

    def _gather(self, target: int, levels: int, places: int) -> None:
        self._require(levels, "F")
        self._require(places, "P")
        shape, held = self._shapes[places], self._shapes[levels]
        if len(held) != 1:
            raise _NoBlockCode
        at, rows = self._new(target, "F", shape), math.prod(shape)
        operands = (self._at[places], self._at[levels], held[0])
        self._code.extend((OPERATIONS["gather"] + rows * ROWS, at, *operands))
        if rows > 1:
            self._code.extend((ROW_BYTES, ROW_BYTES, 0, 0))
        self._count += 1

    def _count_flags(self, target: int, flags: int) -> None:
        self._require(flags, "B")
        if not self._shapes[flags]:
            raise _NoBlockCode
        count, *rest = self._shapes[flags]
        own = tuple(rest)
        at, source = self._new(target, "I", own), self._at[flags]
        if count:
            self._emit(_COPY, own, at, (source, own))
        else:
            for n in range(math.prod(own)):
                self._one_row(OPERATIONS["fill"], at + n * ROW_BYTES, 0)
        for n in range(1, count):
            row = source + n * math.prod(own) * ROW_BYTES
            self._emit(OPERATIONS["add I"], own, at, (at, own), (row, own))

    def _highest(self, target: int, moving: int, ranks: int, _programs: int) -> None:
        self._require(moving, "B")
        ranked: tuple[int, ...] = self._tape.constants[ranks]
        at, flags = self._new(target, "I"), self._at[moving]
        self._one_row(OPERATIONS["fill"], at, len(ranked))
        # The highest rank is the last to be written.
        for _, n in sorted((rank, n) for n, rank in enumerate(ranked) if rank):
            self._one_row(OPERATIONS["fill where"], at, flags + n * ROW_BYTES, at, n)


# Tapes note what is inside ``recordable``.
_OTHERS: Final[Mapping[Any, Callable[..., None]]] = {
    np.log2: _Writer._log2,
    np.ceil: _Writer._ceil,
    np.negative: _Writer._negative,
    np.where: _Writer._where,
    part: _Writer._part,
    cast_to: _Writer._cast,
    unwrap(stack): _Writer._stack,
    unwrap(places_of): _Writer._places,
    unwrap(take): _Writer._gather,
    unwrap(count_true): _Writer._count_flags,
    unwrap(highest): _Writer._highest,
}


@cache
def _broadcast(*shapes: Shape) -> Shape:
    return np.broadcast_shapes(*shapes)


@cache
def _runs(shape: Shape, *operands: Shape) -> tuple[tuple[tuple[int, int], ...], ...]:
    """For each run of ``shape``'s last axis and each operand: bytes to its first row, and from one
    row to the next.
    """
    return tuple(zip(*(_own_runs(shape, own) for own in operands), strict=True))


def _own_runs(shape: Shape, own: Shape) -> list[tuple[int, int]]:
    if 0 in shape:  # such as counts of what a program without any loop has none of
        return []
    rows = np.broadcast_to(np.arange(math.prod(own)).reshape(own), shape).reshape(-1, shape[-1])
    steps = rows[:, min(1, shape[-1] - 1)] - rows[:, 0]
    return list(zip((rows[:, 0] * ROW_BYTES).tolist(), (steps * ROW_BYTES).tolist(), strict=True))


@cache
def _chosen(shape: Shape, key: Key) -> tuple[tuple[int, ...], Shape]:
    """(rows of a part of ``shape``, its shape); the programs have to stay as they are."""
    rows = np.arange(2 * math.prod(shape)).reshape(*shape, 2)[cast("Any", key.value)]
    if rows.ndim == 0 or rows.shape[-1] != 2 or (rows[..., 1] - rows[..., 0] != 1).any():
        raise _NoBlockCode
    return tuple((rows[..., 0].ravel() // 2).tolist()), rows.shape[:-1]
