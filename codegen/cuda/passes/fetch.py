"""Fills of shared memory that only copy move as many elements at a time as follow each other.

    cooperative a, b: tile[a, b] = A[a, k + b]     ->     cooperative a, b / 4: copy 4 elements

Both sides start at multiples of 16 bytes, so a piece is aligned where all other parts of an index
are multiples of its length.  A tile's zeros beyond its tensor are whole pieces, or it is copied
element by element.
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
from sketch.nest.loopnest import Affine, BufferLoad, LoopVar, Scope, Store

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
    count, bindings = 1, node.bindings
    if bindings and bindings[-1].stride == 1:
        last = bindings[-1]
        count = _elements(store, source, condition, last, {**steps, **_steps_of(bindings)})
        bindings = (*bindings[:-1], Binding(last.var, last.extent // count, count))
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
    affine = all(isinstance(index, Affine) for index in (*value.indices, *store.indices))
    same = value.dtype == store.targets[0].dtype
    return (value, condition) if affine and same else None


def _is_zero(node: Expr) -> bool:
    """Whether all bits of a constant are 0."""
    return isinstance(node, Const) and str(node.value) in ("0", "0.0", "False")


def _elements(
    store: Store, source: BufferLoad, condition: Expr | None, last: Binding, steps: Steps
) -> int:
    """The most elements along ``last`` that are a piece on both sides."""
    tests = [] if condition is None else predicates_of(condition)
    count = 1 if tests is None or source.buffer.loose else WIDEST // size_of(source.dtype)
    sides = ((source.buffer, source.indices), (store.targets[0], store.indices))
    forms = [flatten(*side)[0] for side in sides]
    while count > 1:
        pieces = all(steps_over(form, last.var, count, steps) for form in forms)
        if last.extent % count == 0 and pieces and whole(tests or (), last.var, count, steps):
            break
        count //= 2
    return count
