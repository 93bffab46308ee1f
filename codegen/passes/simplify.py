"""Simplify: drop single-trip loops, decided predicates and selects, dead statements.

for i in 0..1: { for k in 0..9: acc[i] += x[k]  if 0 <= k < 9 }
->
for k in 0..9: acc[0] += x[k]
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TypeGuard

from codegen.passes.affine import Ranges, constant, decide, interval, loop_range, narrowed
from codegen.passes.rewrite import Nodes, map_body, map_expr, substitute, with_body, without_loops
from sketch.lang.expr import Binary, Const, Expr, Reducer, Select
from sketch.lang.operator_names import COMPARISON
from sketch.lang.rewrite import reused
from sketch.nest.intervals import affine_of, predicates_of
from sketch.nest.loopnest import Allocate, Branch, Case, Loop, LoopNest, Node, Predicate, Store
from sketch.nest.walk import walk, walk_value


def simplify(nest: LoopNest) -> LoopNest:
    """The nest without what intervals prove superfluous."""
    return replace(nest, roots=simplify_nodes(nest.roots, {}))


def simplify_nodes(nodes: Nodes, ranges: Ranges) -> Nodes:
    """Simplify a sequence inside loops whose variables have ``ranges``."""
    once = {node.var: constant(0) for node in walk(nodes) if _runs_once(node)}
    if once:  # of all such loops together: one substitution
        nodes = without_loops(substitute(nodes, once), once)
    return _simplify(nodes, ranges)


def _runs_once(node: Node) -> TypeGuard[Loop]:
    return isinstance(node, Loop) and bool(node.extent == 1) and not node.clip


def _simplify(nodes: Nodes, ranges: Ranges) -> Nodes:
    new: list[Node] = []
    for node in nodes:
        new.extend(_simplify_node(node, ranges))
    return reused(new, nodes)


def _simplify_node(node: Node, ranges: Ranges) -> Nodes:
    match node:
        case Store():
            return _simplify_store(node, ranges)
        case Loop():
            return _simplify_trips(node, ranges)
        case Allocate():
            new = map_body(node, lambda body: _simplify(body, ranges))
            assert isinstance(new, Allocate)
            return (new,) if new.body else ()
        case Branch():
            return _simplify_branch(node, ranges)


def _simplify_trips(loop: Loop, ranges: Ranges) -> Nodes:
    inner = {**ranges, loop.var: loop_range(loop)}
    clip: list[Predicate] = []
    for predicate in loop.clip:
        verdict = decide(predicate, inner)
        if verdict is False:
            return ()
        if verdict is None:
            clip.append(predicate)
    body = _simplify(loop.body, inner)
    if not body:
        return ()
    if len(clip) != len(loop.clip):
        loop = replace(loop, clip=tuple(clip), body=body)
        return simplify_nodes((loop,), ranges)  # perhaps it runs once
    return (loop,) if body is loop.body else (with_body(loop, body),)


def _simplify_branch(node: Branch, ranges: Ranges) -> Nodes:
    low, high = interval(node.index, ranges)
    cases: list[Case] = []
    for case in node.cases:
        start, end = max(low, case.low), min(high, case.high)
        if start > end:
            continue
        body = _simplify(case.body, narrowed(ranges, node.index, start, end))
        cases.append(Case(start, end, body))
    if len(cases) == 1:
        return cases[0].body
    return (Branch(node.index, tuple(cases)),) if any(case.body for case in cases) else ()


def _simplify_store(store: Store, ranges: Ranges) -> Nodes:
    store = select_to_predicates(store)
    kept: list[Predicate] = []
    for predicate in store.predicates:
        verdict = decide(predicate, ranges)
        if verdict is False:
            return ()
        if verdict is None and predicate not in kept:
            kept.append(predicate)
    values = reused([_fold_selects(value, ranges) for value in store.values], store.values)
    if values is store.values and len(kept) == len(store.predicates):
        return (store,)
    return (replace(store, values=values, predicates=tuple(kept)),)


def select_to_predicates(store: Store) -> Store:
    """``acc += x if c else 0`` is ``acc += x`` under c; likewise for any reducer's identity."""
    reducer = store.reducer
    if reducer is None or len(store.values) != 1:
        return store
    value = store.values[0]
    while isinstance(value, Select) and _is_identity(reducer, value.otherwise):
        predicates = predicates_of(value.condition)
        if predicates is None:
            break
        value = value.then
        store = replace(store, values=(value,), predicates=(*store.predicates, *predicates))
    return store


def _is_identity(reducer: Reducer, expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value == reducer.identity[0].value


def _fold_selects(expr: Expr, ranges: Ranges) -> Expr:
    """Take the branch of selects whose condition is the same everywhere."""
    if not _has_selects(expr):
        return expr

    def leaf(node: Expr) -> Expr:
        return node

    def fold(node: Expr) -> Expr:
        while isinstance(node, Select):
            verdict = _truth(node.condition, ranges)
            if verdict is None:
                break
            node = node.then if verdict else node.otherwise
        return node

    return map_expr(expr, leaf, fold)


@lru_cache(maxsize=256)  # values stay as they are in most passes
def _has_selects(expr: Expr) -> bool:
    return any(isinstance(node, Select) for node in walk_value(expr))


def _truth(condition: Expr, ranges: Ranges) -> bool | None:
    match condition:
        case Const(value, _):
            return bool(value)
        case Binary("and", lhs, rhs, _):
            both = _truth(lhs, ranges), _truth(rhs, ranges)
            return False if False in both else None if None in both else True
        case Binary("or", lhs, rhs, _):
            both = _truth(lhs, ranges), _truth(rhs, ranges)
            return True if True in both else None if None in both else False
        case Binary(op, lhs, rhs, _) if op in COMPARISON:
            left, right = affine_of(lhs), affine_of(rhs)
            if left is None or right is None:
                return None
            return _compare(op, interval(left + right.scale(-1), ranges))
        case _:
            return None


def _compare(op: str, bounds: tuple[int, int]) -> bool | None:
    """``x op 0`` for every x within the bounds, or None."""
    low, high = bounds
    if op in ("gt", "ge", "ne"):
        opposite = _compare({"gt": "le", "ge": "lt", "ne": "eq"}[op], bounds)
        return None if opposite is None else not opposite
    if op == "lt":
        return True if high < 0 else False if low >= 0 else None
    if op == "le":
        return True if high <= 0 else False if low > 0 else None
    if low == high == 0:
        return True
    return False if low > 0 or high < 0 else None
