"""Blocks of a tensor unit with tile registers: the loops that one instruction executes.

tensor m in 0..16:
tensor g in 0..64 step 4:
tensor p in 0..4:
vectorized n in 0..16:
acc[m, n] += i32(A[m, g + p]) * i32(B[g, n, p])
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from codegen.passes.affine import flatten
from sketch.lang.expr import Binary, Cast, Expr
from sketch.lang.reducers import is_sum
from sketch.nest.loopnest import (
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
from sketch.nest.walk import accesses, index_variables, stores, walk
from sketch.target.units import TensorUnit


def has_unit_loops(nest: LoopNest) -> bool:
    """Whether some loop of a nest is for a tensor unit: without one, no pass of units has work."""
    return any(isinstance(node, Loop) and node.kind is LoopKind.TENSOR for node in walk(nest.roots))


@dataclass(frozen=True, slots=True)
class TileBlock:
    """A block, and the unit that computes it.

    Attributes:
        rows, groups, elements, lanes: its loops.
        store: the statement.
        lhs, rhs: what is multiplied.
    """

    unit: TensorUnit
    rows: Loop
    groups: Loop
    elements: Loop
    lanes: Loop
    store: Store
    lhs: BufferLoad
    rhs: BufferLoad

    @property
    def loops(self) -> tuple[Loop, ...]:
        """From outside in."""
        return self.rows, self.groups, self.elements, self.lanes

    @property
    def variables(self) -> frozenset[LoopVar]:
        """What its loops walk with."""
        return frozenset(loop.var for loop in self.loops)

    @property
    def depth(self) -> int:
        """Products that are added."""
        return int(self.groups.extent) * int(self.elements.extent)

    @property
    def inside(self) -> tuple[Predicate, ...]:
        """Predicates that not all of the block fulfil, or none."""
        own = self.variables
        used = ({v for v, _ in p.index.terms} for p in self.store.predicates)
        pairs = zip(self.store.predicates, used, strict=True)
        return tuple(p for p, names in pairs if names & own)


def tile_block(node: Node, units: Iterable[TensorUnit]) -> TileBlock | None:
    """The block that ``node`` is the outermost loop of, if a unit computes it."""
    loops = _chain(node)
    if len(loops) != 4 or any(loop.kind is not LoopKind.TENSOR for loop in loops[:3]):
        return None
    rows, groups, elements, lanes = loops
    store = lanes.body[0]
    kinds = [loop.axis_kind for loop in loops]
    if kinds != ["spatial", "reduce", "reduce", "spatial"] or not isinstance(store, Store):
        return None
    product = store.values[0]
    if store.reducer is None or not is_sum(store.reducer) or len(store.values) > 1:
        return None
    if not isinstance(product, Binary) or product.op != "mul":
        return None
    for unit in units:
        for first, second in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
            lhs, rhs = _loaded(first), _loaded(second)
            if lhs is not None and rhs is not None:
                block = TileBlock(unit, rows, groups, elements, lanes, store, lhs, rhs)
                if product.dtype == unit.acc and _is_computed(block):
                    return block
    return None


def is_tile_loop(node: Loop) -> bool:
    """Whether a loop and what it contains are one instruction on tile registers."""
    if node.kind is not LoopKind.TENSOR:
        return False
    used = (buffer for store, _ in stores((node,)) for buffer, _ in accesses(store))
    return any(buffer.scope is Scope.TILE for buffer in used)


def _chain(node: Node) -> list[Loop]:
    loops: list[Loop] = []
    while isinstance(node, Loop):
        loops.append(node)
        if len(node.body) != 1 or node.clip:
            break
        node = node.body[0]
    return loops


def _loaded(factor: Expr) -> BufferLoad | None:
    load = factor.operand if isinstance(factor, Cast) else factor
    return load if isinstance(load, BufferLoad) else None


def _is_computed(block: TileBlock) -> bool:
    """Whether extents, types and layouts are those of the unit."""
    unit, rows, groups, elements, lanes = block.unit, *block.loops
    if (block.lhs.dtype, block.rhs.dtype) != (unit.lhs, unit.rhs):
        return False
    sizes = int(lanes.extent), int(elements.extent), int(groups.stride)
    if sizes != (unit.n, unit.together, unit.together):
        return False
    if lanes.kind is not LoopKind.VECTORIZED or int(rows.stride) != 1:
        return False
    if int(rows.extent) > unit.m or block.depth > unit.k:
        return False
    lhs = steps_of(block.lhs.buffer, block.lhs.indices, block.loops)
    rhs = steps_of(block.rhs.buffer, block.rhs.indices, block.loops)
    acc = steps_of(block.store.targets[0], block.store.indices, block.loops)
    if lhs is None or rhs is None or acc is None:
        return False
    apart = lhs[0] > 0 and rhs[1] > 0 and acc[0] > 0
    walks = (lhs[1:], rhs[0], rhs[2:], acc[1:])
    return apart and walks == ((1, 1, 0), 0, (1, unit.together), (0, 0, 1))


def steps_of(
    buffer: Buffer, indices: tuple[Index, ...], loops: Iterable[Loop]
) -> tuple[int, ...] | None:
    """Elements that an access moves by where a variable grows by one; None where it is not that."""
    form, quasi = flatten(buffer, indices)
    own = {loop.var for loop in loops}
    if buffer.swizzled or any(own & index_variables(index) for index, _ in quasi):
        return None
    return tuple(form.coefficient(loop.var) for loop in loops)
