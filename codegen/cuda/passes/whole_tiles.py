"""Blocks at the end of an axis start earlier, so that none reaches beyond it.

    block i in 0, 64, 128, 192                   block i, from = min(i, 133)
      tile[d] = A[i + d] if i + d < 197   ->       tile[d] = A[from + d]
      C[i + r] = ...     if i + r < 197            C[from + r] = ...     if from + r >= i

The last block computes some results of its neighbour once more, and stores only its own; in the
loop over tiles no copy asks whether its row is there.  A tile of an axis that is shorter stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from codegen.cuda.conditions import holds, without_tests
from codegen.cuda.device import (
    Binding,
    Cooperative,
    DeviceFunction,
    DeviceNode,
    For,
    Shift,
    walk_device,
)
from codegen.passes.affine import Ranges
from codegen.passes.rewrite import map_expr, substitute_predicates, substitute_store
from sketch.lang.affine import UNBOUNDED, Interval
from sketch.lang.expr import Expr, Select
from sketch.lang.rewrite import children
from sketch.nest.intervals import predicates_of
from sketch.nest.loopnest import Affine, LoopVar, Predicate, Scope, Store
from sketch.nest.walk import index_variables

_PRIVATE = (Scope.LOCAL, Scope.SHARED)
Loops = Mapping[LoopVar, Binding | For]


def whole_tiles(function: DeviceFunction) -> DeviceFunction:
    """The function with such blocks shifted where that saves tests of copies."""
    for binding in function.blocks:
        if binding.extent > 1 and _is_tested(function, binding.var):
            function = _shifted(function, binding)
    return function


def _is_tested(function: DeviceFunction, var: LoopVar) -> bool:
    """Whether what is copied into shared memory depends on a test of ``var``."""
    for node in walk_device(function.body):
        for store in _stores((node,)) if isinstance(node, Cooperative) else ():
            for value in store.values:
                if any(var in _tested(test) for test in _conditions(value)):
                    return True
    return False


def _conditions(value: Expr) -> Iterator[Expr]:
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, Select):
            yield node.condition
        pending.extend(children(node))


def _tested(condition: Expr) -> set[LoopVar]:
    """The variables of a conjunction of affine comparisons."""
    return {v for p in predicates_of(condition) or () for v, _ in p.index.terms}


def _shifted(function: DeviceFunction, binding: Binding) -> DeviceFunction:
    """The function with the blocks along one axis shifted, if its results are the same."""
    loops = _loops(function)
    ends = {
        _end(store, binding, loops)
        for store in _stores(function.body)
        if store.targets[0].scope not in _PRIVATE
    }
    end = ends.pop() if len(ends) == 1 else None
    if end is None or end < binding.stride:
        return function
    shift = Shift(LoopVar(f"{binding.var.name}.from"), binding, end - binding.stride)
    shifts = (*function.shifts, shift)
    ranges: dict[LoopVar, Interval] = {each.var: (0, each.most) for each in shifts}
    for var, loop in loops.items():
        ranges[var] = 0, (loop.extent - 1) * loop.stride
    return replace(function, body=_moved(function.body, shift, ranges), shifts=shifts)


def _stores(nodes: tuple[DeviceNode, ...]) -> Iterator[Store]:
    return (node for node in walk_device(nodes) if isinstance(node, Store))


def _loops(function: DeviceFunction) -> Loops:
    """What each variable walks."""
    loops: list[Binding | For] = [*function.blocks, *function.threads]
    for node in walk_device(function.body):
        if isinstance(node, For):
            loops.append(node)
        elif isinstance(node, Cooperative):
            loops += node.bindings
    return {loop.var: loop for loop in loops}


def _end(store: Store, binding: Binding, loops: Loops) -> int | None:
    """Where the axis ends that blocks walk together in a dimension of what is stored.

    None where a guard says nothing of it, or a block stores anything but its own part.
    """
    found = [index for index in store.indices if binding.var in index_variables(index)]
    if len(found) != 1 or not isinstance(found[0], Affine) or len(store.targets) > 1:
        return None
    own = found[0] + Affine(((binding.var, -1),))
    if own.coefficient(binding.var) or not walks(own, binding.stride, loops):
        return None
    ends = [_bound(guard, found[0]) for guard in store.predicates]
    return min((end for end in ends if end is not None), default=None)


def _bound(guard: Predicate, index: Affine) -> int | None:
    """Below what a guard keeps an index."""
    rest = guard.index + index.scale(-1)
    return (
        None
        if any(c for _, c in rest.terms) or guard.high >= UNBOUNDED
        else (guard.high - rest.const)
    )


def walks(form: Affine, count: int, loops: Loops) -> bool:
    """Whether a form takes the values 0 .. ``count`` - 1 and no others."""
    reach = form.const
    parts = [(c * loops[v].stride, loops[v].extent) for v, c in form.terms if c]
    for step, extent in sorted(parts):
        if not 0 < step <= reach + 1:
            return False
        reach += step * (extent - 1)
    return form.const == 0 and reach == count - 1


def _moved(nodes: tuple[DeviceNode, ...], shift: Shift, ranges: Ranges) -> tuple[DeviceNode, ...]:
    return tuple(_moved_node(node, shift, ranges) for node in nodes)


def _moved_node(node: DeviceNode, shift: Shift, ranges: Ranges) -> DeviceNode:
    match node:
        case For():
            clip = _kept(substitute_predicates(node.clip, shift.values), ranges)
            return replace(node, clip=clip, body=_moved(node.body, shift, ranges))
        case Cooperative():
            return replace(node, body=_moved(node.body, shift, ranges))
        case Store():
            return _moved_store(node, shift, ranges)
        case _:
            return node


def _moved_store(store: Store, shift: Shift, ranges: Ranges) -> Store:
    moved = substitute_store(store, shift.values)
    guards = _kept(moved.predicates, ranges)
    if store.targets[0].scope not in _PRIVATE:
        # the neighbour stores what is its own
        (index,) = (i for i in moved.indices if shift.var in index_variables(i))
        assert isinstance(index, Affine)
        own = index + Affine(((shift.of.var, -1),))
        guards = (*guards, Predicate(own, 0, UNBOUNDED))
    values = tuple(
        map_expr(value, lambda node: node, partial(without_tests, ranges)) for value in moved.values
    )
    return replace(moved, predicates=guards, values=values)


def _kept(guards: tuple[Predicate, ...], ranges: Ranges) -> tuple[Predicate, ...]:
    """Those that do not always hold."""
    return tuple(guard for guard in guards if not holds(guard, ranges))
