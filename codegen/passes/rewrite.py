"""The one place that rebuilds nests: substitution of loop variables and maps over statements.

A part that does not change comes back as the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from codegen.passes.affine import substitute_affine
from sketch.lang.expr import Binary, Cast, Expr, Select, Unary
from sketch.lang.rewrite import children, reused
from sketch.nest.loopnest import (
    Affine,
    AffineValue,
    Allocate,
    Branch,
    BufferLoad,
    Case,
    Index,
    Loop,
    LoopKind,
    LoopVar,
    Need,
    Node,
    Predicate,
    Quasi,
    Scope,
    Store,
)
from sketch.nest.walk import index_variables, store_loads, stores

Nodes = tuple[Node, ...]
Values = Mapping[LoopVar, Affine]
STATIC_KINDS = (LoopKind.UNROLLED, LoopKind.VECTORIZED, LoopKind.TENSOR)


def is_dynamic(loop: Loop) -> bool:
    """Whether the loop's variable is a run-time value (not unrolled, not lanes)."""
    return loop.kind not in STATIC_KINDS


def _same(node: Expr) -> Expr:
    return node


def map_expr(
    expr: Expr, leaf: Callable[[Expr], Expr], finish: Callable[[Expr], Expr] = _same
) -> Expr:
    """Rebuild an expression with ``leaf`` applied to everything that is not an operator, and
    ``finish`` to every rebuilt node.
    """
    memo: dict[int, Expr] = {}

    def visit(node: Expr) -> Expr:
        known = memo.get(id(node))
        if known is None:
            rebuild = _REBUILD.get(type(node))
            known = finish(leaf(node) if rebuild is None else rebuild(node, visit))
            memo[id(node)] = known
        return known

    return visit(expr)


def _rebuild_binary(node: Binary, visit: Callable[[Expr], Expr]) -> Expr:
    lhs, rhs = node.lhs, node.rhs
    new_lhs, new_rhs = visit(lhs), visit(rhs)
    same = new_lhs is lhs and new_rhs is rhs
    return node if same else Binary(node.op, new_lhs, new_rhs, node.dtype)


def _rebuild_one(node: Unary | Cast, visit: Callable[[Expr], Expr]) -> Expr:
    new = visit(node.operand)
    return node if new is node.operand else replace(node, operand=new)


def _rebuild_select(node: Select, visit: Callable[[Expr], Expr]) -> Expr:
    condition, then, otherwise = node.condition, node.then, node.otherwise
    parts = visit(condition), visit(then), visit(otherwise)
    if parts[0] is condition and parts[1] is then and parts[2] is otherwise:
        return node
    return Select(*parts)


# By type: expressions have thousands of operators, and a match asks for one class after the other.
_REBUILD: Final[Mapping[type[Expr], Callable[[Any, Callable[[Expr], Expr]], Expr]]] = {
    Binary: _rebuild_binary,
    Unary: _rebuild_one,
    Cast: _rebuild_one,
    Select: _rebuild_select,
}


def substitute_index(index: Index, values: Values) -> Index:
    """Replace loop variables in an index."""
    if isinstance(index, Affine):
        return substitute_affine(index, values)
    expr = substitute_expr(index.expr, values)
    return index if expr is index.expr else Quasi(expr, index.low, index.high)


def _substitute_indices(indices: tuple[Index, ...], values: Values) -> tuple[Index, ...]:
    return reused([substitute_index(index, values) for index in indices], indices)


def substitute_expr(expr: Expr, values: Values) -> Expr:
    """Replace loop variables in an expression."""

    def leaf(node: Expr) -> Expr:
        match node:
            case LoopVar() if node in values:
                return AffineValue(values[node])
            case AffineValue(index):
                form = substitute_affine(index, values)
                return node if form is index else AffineValue(form)
            case BufferLoad(buffer, indices):
                new = _substitute_indices(indices, values)
                return node if new is indices else BufferLoad(buffer, new)
            case _:
                return node

    return map_expr(expr, leaf)


def substitute_predicates(
    predicates: tuple[Predicate, ...], values: Values
) -> tuple[Predicate, ...]:
    """Replace loop variables in predicates."""
    if not predicates:
        return predicates
    new = tuple(
        [
            p
            if (form := substitute_affine(p.index, values)) is p.index
            else Predicate(form, p.low, p.high)
            for p in predicates
        ]
    )
    return reused(new, predicates)


def substitute_store(store: Store, values: Values) -> Store:
    """Replace loop variables in a statement."""
    indices = _substitute_indices(store.indices, values)
    bodies = reused([substitute_expr(value, values) for value in store.values], store.values)
    predicates = substitute_predicates(store.predicates, values)
    needs = _substitute_needs(store.needs, values)
    same = indices is store.indices and predicates is store.predicates
    if same and bodies is store.values and needs is store.needs:
        return store
    return Store(store.targets, indices, bodies, store.reducer, predicates, store.stage, needs)


def _substitute_needs(needs: tuple[Need, ...], values: Values) -> tuple[Need, ...]:
    if not needs:
        return needs
    new = []
    for need in needs:
        places = reused([substitute_affine(place, values) for place in need.places], need.places)
        new.append(need if places is need.places else replace(need, places=places))
    return reused(new, needs)


def map_body(node: Node, visit: Callable[[Nodes], Nodes]) -> Node:
    """``node`` with ``visit`` applied to its body (or to the body of each case)."""
    match node:
        case Loop():
            body = visit(node.body)
            return node if body is node.body else with_body(node, body)
        case Allocate(buffer, inside):
            body = visit(inside)
            return node if body is inside else Allocate(buffer, body)
        case Branch(index, cases):
            new = tuple(Case(case.low, case.high, visit(case.body)) for case in cases)
            same = all(a.body is b.body for a, b in zip(new, cases, strict=True))
            return node if same else Branch(index, new)
        case Store():
            return node


def with_body(loop: Loop, body: Nodes) -> Loop:
    """``loop`` around something else; what ``replace`` does, in a third of its time."""
    return Loop(
        loop.var,
        loop.extent,
        loop.stride,
        loop.kind,
        loop.axis_kind,
        body,
        loop.clip,
        loop.together,
        loop.fetch,
        loop.claim,
    )


def substitute(nodes: Nodes, values: Values) -> Nodes:
    """Replace loop variables in a nest."""
    return reused([_substitute_node(node, values) for node in nodes], nodes)


def without_loops(nodes: Nodes, values: Values) -> Nodes:
    """The bodies of loops whose variables have a value, in their place."""
    new: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop) and node.var in values:
            new += without_loops(node.body, values)
        else:
            new.append(map_body(node, lambda body: without_loops(body, values)))
    return reused(new, nodes)


def _substitute_node(node: Node, values: Values) -> Node:
    if isinstance(node, Store):
        return substitute_store(node, values)
    if isinstance(node, Loop):
        clip = substitute_predicates(node.clip, values)
        node = node if clip is node.clip else replace(node, clip=clip)
    if isinstance(node, Branch):
        index = substitute_affine(node.index, values)
        node = node if index is node.index else replace(node, index=index)
    return map_body(node, lambda body: substitute(body, values))


def without_predicates(nodes: Nodes, dropped: Container[Predicate]) -> Nodes:
    """The nodes, in which no statement is under these predicates."""
    new: list[Node] = []
    for node in nodes:
        if isinstance(node, Store):
            kept = tuple([p for p in node.predicates if p not in dropped])
            same = len(kept) == len(node.predicates)
            new.append(node if same else replace(node, predicates=kept))
        else:
            new.append(map_body(node, lambda body: without_predicates(body, dropped)))
    return reused(new, nodes)


def instructions(nodes: Nodes) -> int:
    """About the vector instructions of the straight-line code of a nest."""
    total = 0
    for store, loops in stores(nodes):
        unrolled = [loop for loop in loops if loop.kind is LoopKind.UNROLLED]
        operations, loads = _work(store)
        total += operations * _copies(unrolled)
        # an element is loaded once for all copies that differ in other variables
        for used in loads if unrolled else ():
            total += _copies([loop for loop in unrolled if loop.var in used])
        total += 0 if unrolled else len(loads)
    return total


@lru_cache(maxsize=256)  # copies of a nest share most of their statements
def _work(store: Store) -> tuple[int, tuple[frozenset[LoopVar], ...]]:
    """Operations of a statement, and the variables that each of its loads from memory uses."""
    loads = [load for load in store_loads(store) if load.buffer.scope is not Scope.LOCAL]
    used = (
        frozenset(var for index in load.indices for var in index_variables(index)) for load in loads
    )
    return _operations(store), tuple(used)


def _copies(loops: list[Loop]) -> int:
    count = 1
    for loop in loops:
        count *= int(loop.extent)
    return count


def _operations(store: Store) -> int:
    """Operators of a statement, and its store to memory; literals in registers cost nothing."""
    pending = list(store.values)
    count = 0
    while pending:
        node = pending.pop()
        operands = children(node)
        pending.extend(operands)
        count += bool(operands)
    in_memory = store.targets[0].scope is not Scope.LOCAL
    return count + len(store.targets) * in_memory
