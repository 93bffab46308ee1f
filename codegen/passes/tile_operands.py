"""Tile operands: what is missing of a block is zeros, in a copy of what there is.

    tensor m, g, p, vectorized n:            local part:
      tile += A[m, g+p] * B if m < 5   ->      unrolled m, vectorized k: part = A if m < 5 else 0
                                               tensor m, g, p, vectorized n: tile += part * B

A register is filled from rows at equal steps, all of them.  Where predicates leave some out (the
last rows, the padding of a map, the end of a sum), they are copied first, for all blocks that share
the operand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from codegen.passes.affine import Ranges, constant, loop_range, narrowed, variables
from codegen.passes.rewrite import (
    Nodes,
    map_body,
    substitute,
    substitute_expr,
    substitute_predicates,
    with_body,
)
from codegen.passes.simplify import simplify_nodes
from codegen.passes.tile_blocks import TileBlock, tile_block
from sketch.lang.expr import Binary, Cast, Const, Expr, Select
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import (
    Affine,
    AffineValue,
    Allocate,
    Branch,
    Buffer,
    BufferLoad,
    Case,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Predicate,
    Scope,
    Store,
)
from sketch.nest.walk import index_variables, walk
from sketch.target.target import Target
from sketch.target.units import TensorUnit, units_of


def tile_operands(nest: LoopNest, target: Target) -> LoopNest:
    """The nest in which every block that is added to is whole."""
    units = tuple(unit for unit in units_of(target) if unit.tiles)
    return replace(nest, roots=_nodes(nest.roots, units, {})) if units else nest


@dataclass(frozen=True, slots=True)
class _Copy:
    """A buffer, how it is filled, and the variables that this depends on."""

    buffer: Buffer
    fill: Node
    depends: frozenset[LoopVar]


def _nodes(nodes: Nodes, units: tuple[TensorUnit, ...], ranges: Ranges) -> Nodes:
    return reused([part for node in nodes for part in _node(node, units, ranges)], nodes)


def _node(node: Node, units: tuple[TensorUnit, ...], ranges: Ranges) -> Nodes:
    if isinstance(node, Loop) and _decides(node, units):
        return _nodes(_trips(node, ranges), units, ranges)
    copies, inner = _copied(node, units)
    if copies:
        return (_within(copies, inner),)
    if isinstance(node, Branch):
        cases = (_case(node.index, case, units, ranges) for case in node.cases)
        return (Branch(node.index, tuple(cases)),)
    if isinstance(node, Loop):
        ranges = {**ranges, node.var: loop_range(node)}
    return (map_body(node, lambda body: _nodes(body, units, ranges)),)


def _case(index: Affine, case: Case, units: tuple[TensorUnit, ...], ranges: Ranges) -> Case:
    inside = narrowed(ranges, index, case.low, case.high)
    return Case(case.low, case.high, _nodes(case.body, units, inside))


def _decides(node: Loop, units: tuple[TensorUnit, ...]) -> bool:
    """Whether straight-line trips say what is missing of a block: of the taps of a window, and of
    the blocks in a row of a map, most miss nothing.
    """
    if node.kind is not LoopKind.UNROLLED or node.clip:
        return False
    blocks = (tile_block(inner, units) for inner in walk((node,)))
    return any(p.index.coefficient(node.var) for b in blocks if b is not None for p in b.inside)


def _trips(node: Loop, ranges: Ranges) -> Nodes:
    """Each trip of a loop, without the predicates that hold in it."""
    values = range(0, int(node.extent) * int(node.stride), int(node.stride))
    parts = (substitute(node.body, {node.var: constant(value)}) for value in values)
    return tuple(node for part in parts for node in simplify_nodes(part, ranges))


def _copied(node: Node, units: tuple[TensorUnit, ...]) -> tuple[tuple[_Copy, ...], Node]:
    """The copies that blocks in straight-line loops need, and the node that reads them."""
    if not isinstance(node, Loop) or len(node.body) != 1 or node.clip:
        return (), node
    if node.kind is LoopKind.TENSOR:
        block = tile_block(node, units)
        return ((), node) if block is None or not block.inside else _of_block(block)
    if node.kind is not LoopKind.UNROLLED:
        return (), node
    copies, inner = _copied(node.body[0], units)
    if not copies:
        return (), node
    here = tuple(copy for copy in copies if node.var in copy.depends)
    body = _within(here, inner) if here else inner
    return tuple(copy for copy in copies if copy not in here), with_body(node, (body,))


def _within(copies: tuple[_Copy, ...], node: Node) -> Node:
    body: Nodes = (*(copy.fill for copy in copies), node)
    for copy in copies:
        body = (Allocate(copy.buffer, body),)
    return body[0]


def _of_block(block: TileBlock) -> tuple[tuple[_Copy, ...], Node]:
    rows, groups, elements, lanes = (loop.var for loop in block.loops)
    own = {rows, groups, elements, lanes}
    lhs = _lhs_copy(block)
    new_lhs = BufferLoad(lhs.buffer, (_of(rows), Affine(((groups, 1), (elements, 1)))))
    copies, new_rhs = [lhs], block.rhs
    if any(variables(p.index) & {groups, elements} for p in block.inside):
        rhs = _rhs_copy(block)
        copies.append(rhs)
        new_rhs = BufferLoad(rhs.buffer, (_of(groups), _of(lanes), _of(elements)))
    product = Binary("mul", _wide(new_lhs, block), _wide(new_rhs, block), block.unit.acc)
    kept = tuple(p for p in block.store.predicates if not variables(p.index) & own)
    node: Node = replace(block.store, values=(product,), predicates=kept)
    for loop in reversed(block.loops):
        node = with_body(loop, (node,))
    return tuple(copies), node


def _wide(load: BufferLoad, block: TileBlock) -> Expr:
    return Cast(load, block.unit.acc)


def _of(var: LoopVar) -> Affine:
    return Affine(((var, 1),))


def _lhs_copy(block: TileBlock) -> _Copy:
    """Rows of the first operand, one after the other, with zeros for what is missing."""
    rows, groups, elements, _ = (loop.var for loop in block.loops)
    row, place = LoopVar("row"), LoopVar("place")
    values = {rows: _of(row), groups: _of(place), elements: Affine(())}
    end = Predicate(_of(place), 0, block.depth)
    count, length = int(block.rows.extent), block.unit.k
    part = _part(block.lhs, (count, length), (length, 1), (1, 1))
    return _copy(
        Store((part,), (_of(row), _of(place)), (substitute_expr(block.lhs, values),)),
        (*substitute_predicates(block.store.predicates, values), end),
        (_loop(row, count, LoopKind.UNROLLED), _loop(place, length, LoopKind.VECTORIZED)),
    )


def _rhs_copy(block: TileBlock) -> _Copy:
    """Groups of the second operand; what is missing there is zero already within a group."""
    rows, groups, elements, lanes = (loop.var for loop in block.loops)
    together, columns = block.unit.together, block.unit.n
    group, place = LoopVar("group"), LoopVar("place")
    first = Affine(((group, together),))
    values = {groups: first, elements: _of(place), lanes: Affine(())}
    bounds = {groups: first, elements: Affine(())}
    mine = tuple(p for p in block.store.predicates if not p.index.coefficient(rows))
    shape, strides = (block.depth, columns, together), (columns, together, 1)
    part = _part(block.rhs, shape, strides, (together, 1, 1))
    count, length = int(block.groups.extent), columns * together
    return _copy(
        Store((part,), (first, Affine(()), _of(place)), (substitute_expr(block.rhs, values),)),
        substitute_predicates(mine, bounds),
        (_loop(group, count, LoopKind.UNROLLED), _loop(place, length, LoopKind.VECTORIZED)),
    )


def _part(
    load: BufferLoad, shape: tuple[int, ...], strides: tuple[int, ...], steps: tuple[int, ...]
) -> Buffer:
    size = shape[0] * strides[0]
    return Buffer(f"{load.buffer.name}.part", load.dtype, shape, strides, steps, Scope.LOCAL, size)


def _loop(var: LoopVar, extent: int, kind: LoopKind) -> Loop:
    return Loop(var, extent, 1, kind, "spatial", ())


def _copy(store: Store, predicates: tuple[Predicate, ...], loops: tuple[Loop, ...]) -> _Copy:
    """What ``store`` copies where all predicates hold, zeros elsewhere."""
    (element,) = store.values
    assert isinstance(element, BufferLoad)
    value = Select(all_hold(predicates), element, Const(0, element.dtype))
    node: Node = replace(store, values=(value,))
    for loop in reversed(loops):
        node = with_body(loop, (node,))
    used = {v for p in predicates for v in variables(p.index)}
    used |= {v for index in element.indices for v in index_variables(index)}
    return _Copy(store.targets[0], node, frozenset(used))


def all_hold(predicates: tuple[Predicate, ...]) -> Expr:
    """Predicates, one or more, as an expression."""
    tests = (test for predicate in predicates for test in _tests(predicate))
    return reduce(lambda a, b: Binary("and", a, b, "bool"), tests)


def _tests(predicate: Predicate) -> tuple[Expr, Expr]:
    value = AffineValue(predicate.index)
    return (
        Binary("ge", value, Const(predicate.low, "int64"), "bool"),
        Binary("lt", value, Const(predicate.high, "int64"), "bool"),
    )
