"""Structural checks of a loop nest: what every nest must satisfy before code is made of it.

1. Variables are used inside their loop only.
2. Parallel loops stand at the top of a root nest and never reduce; vectorised loops are innermost.
3. Where a statement writes stays inside its buffer, given its predicates.
4. Two iterations of a parallel loop never write the same element.
5. A private buffer is used inside its allocation only.
6. A packed buffer is walked panel by panel: no step leads into the middle of one, or past its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sketch.errors import LoweringError
from sketch.expr import Expr, children
from sketch.loopnest import (
    Affine,
    AffineValue,
    Allocate,
    Branch,
    Buffer,
    BufferLoad,
    Index,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Predicate,
    Scope,
    Store,
)

_DISTRIBUTED = (LoopKind.PARALLEL, LoopKind.BLOCK)


def verify(nest: LoopNest) -> None:
    """Check an int nest; raises LoweringError at the first violation."""
    shared = frozenset((*nest.arguments, *nest.workspaces))
    for root in nest.roots:
        _visit((root,), _Scope((), shared))


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is visible at a node: the loops around it and the buffers that exist."""

    loops: tuple[Loop, ...]
    buffers: frozenset[Buffer]

    def reaches(self) -> dict[LoopVar, int]:
        """Largest value of every loop variable."""
        return {loop.var: (int(loop.extent) - 1) * int(loop.stride) for loop in self.loops}


def _visit(nodes: tuple[Node, ...], scope: _Scope) -> None:
    for node in nodes:
        match node:
            case Loop():
                _check_loop(node, scope)
                _visit(node.body, _Scope((*scope.loops, node), scope.buffers))
            case Allocate(buffer, body):
                _visit(body, _Scope(scope.loops, scope.buffers | {buffer}))
            case Branch(_, cases):
                for case in cases:
                    _visit(case.body, scope)
            case Store():
                _check_store(node, scope)


def _check_loop(loop: Loop, scope: _Scope) -> None:
    where = f"loop {loop.var.name}"
    if int(loop.extent) < 1 or int(loop.stride) < 1:
        raise LoweringError(f"extent {loop.extent}, stride {loop.stride}", where)
    if loop.kind in _DISTRIBUTED:
        if loop.axis_kind == "reduce":
            raise LoweringError("a reduction is distributed over threads", where, "use rfactor")
        if any(outer.kind not in _DISTRIBUTED for outer in scope.loops):
            raise LoweringError(f"{loop.kind.value} loop inside another kind of loop", where)
    if any(outer.kind is LoopKind.VECTORIZED for outer in scope.loops):
        raise LoweringError("loop inside a vectorised loop", where)
    if loop.kind is LoopKind.VECTORIZED and int(loop.stride) != 1:
        raise LoweringError(f"vectorised loop with stride {loop.stride}", where)


def _check_store(store: Store, scope: _Scope) -> None:
    where = f"statement of {store.stage}"
    for target in store.targets:
        _check_visible(target, scope, where)
        _check_panels(target, store.indices, scope, where)
    for value in store.values:
        _check_value(value, scope, where)
    reaches = scope.reaches()
    if any(_never_holds(predicate, reaches) for predicate in store.predicates):
        return
    for dim, index in enumerate(store.indices):
        _check_index(index, scope, where)
        low, high = bounds(index, reaches, store.predicates)
        extent = int(store.targets[0].shape[dim])
        if low < 0 or high >= extent:
            raise LoweringError(
                f"writes {store.targets[0].name} at {low}..{high} of dimension {dim}, "
                f"which has {extent}",
                where,
            )
    if store.targets[0].scope in (Scope.OUTPUT, Scope.WORKSPACE):
        _check_disjoint(store, scope, where)


def _never_holds(predicate: Predicate, reaches: Mapping[LoopVar, int]) -> bool:
    low, high = bounds(predicate.index, reaches)
    return low >= predicate.high or high < predicate.low


def _check_visible(buffer: Buffer, scope: _Scope, where: str) -> None:
    if buffer not in scope.buffers:
        raise LoweringError(f"buffer {buffer.name} is used outside its allocation", where)


def _check_panels(buffer: Buffer, indices: tuple[Index, ...], scope: _Scope, where: str) -> None:
    if all(step == 1 for step in buffer.steps):
        return
    strides = {loop.var: int(loop.stride) for loop in scope.loops}
    for index, step in zip(indices, buffer.steps, strict=True):
        if isinstance(index, Affine) and any(c * strides[v] % step for v, c in index.terms):
            raise LoweringError(f"{buffer.name} is read in the middle of a panel", where)
    low, high = bounds(indices[-1], scope.reaches())
    if low < 0 or high >= buffer.shape[-1]:
        width = int(buffer.shape[-1])
        raise LoweringError(f"{buffer.name} is read at {low}..{high} of a panel of {width}", where)


def _check_value(value: Expr, scope: _Scope, where: str) -> None:
    if isinstance(value, BufferLoad):
        _check_visible(value.buffer, scope, where)
        for index in value.indices:
            _check_index(index, scope, where)
        _check_panels(value.buffer, value.indices, scope, where)
    if isinstance(value, AffineValue):
        _check_index(value.index, scope, where)
    for child in children(value):
        _check_value(child, scope, where)


def _check_index(index: Index, scope: _Scope, where: str) -> None:
    if not isinstance(index, Affine):
        _check_value(index.expr, scope, where)
        return
    known = {loop.var for loop in scope.loops}
    for var, _ in index.terms:
        if var not in known:
            raise LoweringError(f"variable {var.name} is used outside its loop", where)


def bounds(
    index: Index, reaches: Mapping[LoopVar, int], predicates: tuple[Predicate, ...] = ()
) -> tuple[int, int]:
    """Smallest and largest value of an index; predicates narrow the forms that it is made of."""
    if not isinstance(index, Affine):
        return index.low, index.high
    rest = dict(index.terms)
    low = high = index.const
    for predicate in predicates:
        factor = _share(rest, predicate.index)
        if factor is None:
            continue
        first, last = bounds(predicate.index, reaches)
        ends = (max(first, predicate.low) * factor, min(last, predicate.high - 1) * factor)
        shift = predicate.index.const * factor
        low, high = low + min(ends) - shift, high + max(ends) - shift
        rest = {v: c for v, c in rest.items() if predicate.index.coefficient(v) == 0}
    low += sum(min(c * reaches[v], 0) for v, c in rest.items())
    high += sum(max(c * reaches[v], 0) for v, c in rest.items())
    return low, high


def _share(terms: Mapping[LoopVar, int], part: Affine) -> int | None:
    """The factor with which all of ``part`` occurs in ``terms``; None when it does not."""
    factors = {terms.get(v, 0) / c for v, c in part.terms}
    factor = factors.pop() if len(factors) == 1 else 0.0
    return int(factor) if factor and factor == int(factor) else None


def _check_disjoint(store: Store, scope: _Scope, where: str) -> None:
    """Distributed loops: some dimension must keep their iterations apart."""
    for loop in scope.loops:
        if loop.kind not in _DISTRIBUTED or int(loop.extent) == 1:
            continue
        if not any(_keeps_apart(loop, index, scope, store) for index in store.indices):
            raise LoweringError(
                f"iterations of {loop.kind.value} loop {loop.var.name} write the same elements of "
                f"{store.targets[0].name}",
                where,
            )


def _keeps_apart(loop: Loop, index: Index, scope: _Scope, store: Store) -> bool:
    if _separates(loop, index, scope.loops):
        return True
    digit = _digit(loop.var, index, scope.reaches(), store.predicates)
    return digit is not None and _separates(loop, digit, scope.loops)


def _digit(
    var: LoopVar,
    index: Index,
    reaches: Mapping[LoopVar, int],
    predicates: tuple[Predicate, ...],
) -> Affine | None:
    """The part of a flat index that shares the coefficient of ``var``, if the parts are digits:
    given the predicates, each coefficient exceeds all that the parts below it reach.

    Different values of one digit then are different places, whatever the other digits are.
    """
    if not isinstance(index, Affine) or any(c < 0 for _, c in index.terms):
        return None
    parts: dict[int, list[tuple[LoopVar, int]]] = {}
    for other, coefficient in index.terms:
        parts.setdefault(coefficient, []).append((other, 1))
    reach = 0
    for coefficient in sorted(parts):
        low, high = bounds(Affine(tuple(parts[coefficient])), reaches, predicates)
        if coefficient <= reach and low < high:
            return None
        reach += coefficient * (high - low)
    return Affine(tuple(parts[index.coefficient(var)])) if index.coefficient(var) else None


def _separates(loop: Loop, index: Index, loops: tuple[Loop, ...]) -> bool:
    """Whether a step of ``loop`` is longer than all faster terms of ``index`` together, and the
    slower terms step over all that ``loop`` reaches.
    """
    if not isinstance(index, Affine):
        return False
    step = abs(index.coefficient(loop.var)) * int(loop.stride)
    faster = 0
    for other in loops:
        pace = abs(index.coefficient(other.var)) * int(other.stride)
        if other is loop or pace == 0:
            continue
        if pace < step:
            faster += pace * (int(other.extent) - 1)
        elif pace < step * int(loop.extent) and int(other.extent) > 1:
            return False
    return step > faster
