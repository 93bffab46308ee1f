"""Rows of a joint tensor unit become one vector, with zeros for those that are not there.

tensor r, vectorized lane:                       vectorized lane:
  block += unit(group(A[r, k]), b) if r < 1  ->    block += unit(join(group(A[0, k]), 0), b)
"""

from __future__ import annotations

from dataclasses import replace

from codegen.passes.affine import Ranges, constant, decide, loop_range, narrowed, variables
from codegen.passes.joint_sums import joined
from codegen.passes.rewrite import Nodes, map_body, substitute_expr, substitute_predicates
from codegen.passes.tile_operands import all_hold
from sketch.lang.expr import Binary, Const, Expr, Select
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import Branch, Case, Loop, LoopKind, LoopNest, Node, Store
from sketch.nest.walk import stores
from sketch.target.target import Target
from sketch.target.units import units_of


def joined_rows(nest: LoopNest, target: Target) -> LoopNest:
    """The nest in which the instructions of joint units have all of their operands."""
    names = frozenset(unit.name for unit in units_of(target) if unit.joint)
    return replace(nest, roots=_nodes(nest.roots, names, {})) if names else nest


def _nodes(nodes: Nodes, names: frozenset[str], ranges: Ranges) -> Nodes:
    return reused([_node(node, names, ranges) for node in nodes], nodes)


def _node(node: Node, names: frozenset[str], ranges: Ranges) -> Node:
    if isinstance(node, Branch):
        cases = (_case(node, case, names, ranges) for case in node.cases)
        return Branch(node.index, tuple(cases))
    if isinstance(node, Loop):
        ranges = {**ranges, node.var: loop_range(node)}
        if node.kind is LoopKind.TENSOR:
            ((store, _),) = stores((node,))
            if isinstance(store.values[0], Binary) and store.values[0].op in names:
                return _without_rows(node, store, ranges)
    return map_body(node, lambda body: _nodes(body, names, ranges))


def _case(node: Branch, case: Case, names: frozenset[str], ranges: Ranges) -> Case:
    inside = narrowed(ranges, node.index, case.low, case.high)
    return Case(case.low, case.high, _nodes(case.body, names, inside))


def _without_rows(rows: Loop, store: Store, ranges: Ranges) -> Node:
    """The lanes of a unit, whose first operand has all rows."""
    (product,), (lanes,) = store.values, rows.body
    assert isinstance(product, Binary)
    kept = tuple(p for p in store.predicates if rows.var not in variables(p.index))
    parts = [_row(product.lhs, rows, n, store, ranges) for n in range(int(rows.extent))]
    value = Binary(product.op, joined(parts), product.rhs, product.dtype)
    return map_body(lanes, lambda _: (replace(store, values=(value,), predicates=kept),))


def _row(operand: Expr, rows: Loop, number: int, store: Store, ranges: Ranges) -> Expr:
    """What one row of the first operand has, zeros where it is not there."""
    here = {rows.var: constant(number)}
    own = tuple(p for p in store.predicates if rows.var in variables(p.index))
    verdicts = {p: decide(p, ranges) for p in substitute_predicates(own, here)}
    value, zero = substitute_expr(operand, here), Const(0, operand.dtype)
    if False in verdicts.values():
        return zero
    open_ = tuple(p for p, verdict in verdicts.items() if verdict is None)
    return Select(all_hold(open_), value, zero) if open_ else value
