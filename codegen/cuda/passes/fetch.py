"""Fills of shared memory that only copy move as many elements at a time as follow each other.

    cooperative a, b: tile[a, b] = A[a, k + b]     ->     cooperative a, b / 4: copy 4 elements

Both sides start at multiples of 16 bytes, so a piece is aligned where all other parts of an index
are multiples of its length.  A tile's zeros beyond its tensor are whole pieces, or it is copied
element by element.  So is what is read at places that are not affine, as pixels by their number
are, but where these places are the same for all elements of a piece.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from codegen.cuda.device import Binding, Cooperative, DeviceFunction, DeviceNode, Fetch, For
from codegen.cuda.passes.vectorize import Steps, steps_over, whole
from codegen.gpu.alignment import WIDEST
from codegen.passes.affine import flatten
from sketch.lang.dtypes import BOOL, size_of
from sketch.lang.expr import Binary, Const, Expr, Select
from sketch.nest.intervals import predicates_of
from sketch.nest.loopnest import Affine, BufferLoad, LoopVar, Predicate, Scope, Store
from sketch.nest.walk import buffer_loads, free_values, index_variables

_GLOBAL: Final = (Scope.INPUT, Scope.CONSTANT, Scope.WORKSPACE)


def fetch_pieces(function: DeviceFunction) -> DeviceFunction:
    """The function with copies into shared memory as ``Fetch``."""
    return replace(function, body=_nodes(function.body, function.steps))


def _nodes(nodes: tuple[DeviceNode, ...], steps: Steps) -> tuple[DeviceNode, ...]:
    return tuple(_node(node, steps) for node in nodes)


def _node(node: DeviceNode, steps: Steps) -> DeviceNode:
    if isinstance(node, For):
        return replace(node, body=_nodes(node.body, {**steps, node.var: node.stride}))
    if not isinstance(node, Cooperative) or len(node.body) != 1:
        return node
    store = node.body[0]
    return _copied(node, store, steps) if isinstance(store, Store) else node


def _copied(node: Cooperative, store: Store, steps: Steps) -> Cooperative:
    found = _copy_of(store)
    if found is None:
        return node
    source, condition = found
    plain = all(isinstance(index, Affine) for index in source.indices)
    count, bindings = 1, node.bindings
    if bindings and bindings[-1].stride == 1:
        last = bindings[-1]
        count = _elements(store, source, condition, last, {**steps, **_steps_of(bindings)})
        bindings = (*bindings[:-1], Binding(last.var, last.extent // count, count))
    if count == 1 and not plain:
        return node
    return Cooperative(bindings, (Fetch(store, source, condition, count),))


def _steps_of(bindings: tuple[Binding, ...]) -> dict[LoopVar, int]:
    return {binding.var: binding.stride for binding in bindings}


def _copy_of(store: Store) -> tuple[BufferLoad, Expr | None] | None:
    """What a store copies from global memory, and without what it stores zeros."""
    if store.reducer is not None or len(store.targets) != 1 or store.predicates:
        return None
    value, condition = store.values[0], None
    while isinstance(value, Select) and _is_zero(value.otherwise):
        test = value.condition
        condition = test if condition is None else Binary("and", condition, test, BOOL)
        value = value.then
    if not isinstance(value, BufferLoad) or value.buffer.scope not in _GLOBAL:
        return None
    affine = all(isinstance(index, Affine) for index in store.indices)
    same = value.dtype == store.targets[0].dtype
    return (value, condition) if affine and same else None


def _is_zero(node: Expr) -> bool:
    """Whether all bits of a constant are 0."""
    return isinstance(node, Const) and str(node.value) in ("0", "0.0", "False")


def _elements(
    store: Store, source: BufferLoad, condition: Expr | None, last: Binding, steps: Steps
) -> int:
    """The most elements along ``last`` that are a piece on both sides."""
    tests = _tests_along(condition, last.var)
    count = 1 if tests is None or source.buffer.loose else WIDEST // size_of(source.dtype)
    form, rest = flatten(source.buffer, source.indices)
    if any(last.var in index_variables(index) for index, _ in rest):
        return 1
    forms = [form, flatten(store.targets[0], store.indices)[0]]
    while count > 1:
        pieces = all(steps_over(form, last.var, count, steps) for form in forms)
        pieces = pieces and all(stride % count == 0 for _, stride in rest)
        if last.extent % count == 0 and pieces and whole(tests or (), last.var, count, steps):
            break
        count //= 2
    return count


def _tests_along(condition: Expr | None, var: LoopVar) -> list[Predicate] | None:
    """The affine tests of a conjunction; None where another one depends on a variable."""
    if condition is None:
        return []
    if isinstance(condition, Binary) and condition.op == "and":
        sides = [_tests_along(side, var) for side in (condition.lhs, condition.rhs)]
        found = [side for side in sides if side is not None]
        return [test for side in found for test in side] if len(found) == len(sides) else None
    tests = predicates_of(condition)
    if tests is None:
        return None if var in _used(condition) else []
    return tests


def _used(node: Expr) -> set[LoopVar]:
    """All variables that a value depends on."""
    found = set(free_values(node))
    for load in buffer_loads(node):
        found |= set[LoopVar]().union(*map(index_variables, load.indices))
    return found
