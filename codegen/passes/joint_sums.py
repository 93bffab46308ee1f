"""Sums of joint tensor units: in vectors of several rows while they are added to, and as they were
before and after.

    acc[0..2, 0..4] = 0                      block[0..2, 0..4] = 0
    serial k:                        ->      serial k: block[h, lane] += ...
      acc[m, j] += ...                       acc[0] = join(low_half(block[0]), low_half(block[1]))
                                             acc[1] = join(high_half(block[0]), high_half(block[1]))

A vector of the block has a part of each row, one after the other: with m rows the m-th part of a
vector.  Exchanging parts between m vectors gives rows, and rows exchanged again give the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codegen.passes.affine import constant
from codegen.passes.promote import Update, single_update
from codegen.passes.rewrite import Nodes, substitute_expr, substitute_index
from codegen.passes.tiles import Cells, allocated, fill, retarget, tile_of
from sketch.lang.expr import Binary, Const, Expr, Unary
from sketch.lang.operator_names import HIGH_HALF, JOIN, LOW_HALF
from sketch.nest.loopnest import Loop, LoopKind, Node, Scope


@dataclass(frozen=True, slots=True)
class JointSums:
    """A part of a nest that does nothing but add, and vectors for what it adds to.

    Attributes:
        node: the part.
        update: its statement.
        cells: the vectors.
    """

    node: Loop
    update: Update
    cells: Cells

    def retargeted(self) -> Node:
        """The part, adding to the vectors."""
        return retarget(self.node, self.cells)

    def around(self, inside: Nodes, zero: bool) -> Node:
        """What is executed.

        Args:
            inside: the part, adding to the vectors as the unit does.
            zero: whether all that is added to is 0 before.
        """
        store = self.update.store
        memory = Cells(store.targets, store.indices)
        if zero:
            before = self._copied(self.cells, (Const(0, store.targets[0].dtype),) * self._count)
        else:
            before = self._copied(self.cells, self._exchanged(memory))
        after = self._copied(memory, self._exchanged(self.cells))
        return allocated(self.cells, (*before, *inside, *after))

    @property
    def _rows(self) -> Loop:
        return next(loop for loop in self.update.loops if loop.kind is LoopKind.TENSOR)

    @property
    def _count(self) -> int:
        return int(self._rows.extent)

    def _copied(self, cells: Cells, values: Sequence[Expr]) -> Nodes:
        """``cells = values``, one value for each row or vector."""
        rows, stage = self._rows, self.update.store.stage
        others = tuple(loop for loop in self.update.loops if loop is not rows)
        nodes: list[Node] = []
        for number, value in enumerate(values):
            here = {rows.var: constant(number)}
            indices = tuple(substitute_index(index, here) for index in cells.indices)
            nodes += fill(Cells(cells.buffers, indices), (value,), others, (), stage, "copy")
        return tuple(nodes)

    def _exchanged(self, cells: Cells) -> list[Expr]:
        """The first parts of all vectors, the second ones and so on."""
        (load,), count = cells.loads(), self._count
        vectors = [substitute_expr(load, {self._rows.var: constant(n)}) for n in range(count)]
        return [joined([_part(v, n, count) for v in vectors]) for n in range(count)]


def joint_sums(node: Loop) -> JointSums | None:
    """The sums of a part of a nest, if it adds to several rows of a tensor unit, and does nothing
    else.
    """
    if node.kind is LoopKind.PARALLEL:
        return None
    update = single_update(node)
    if update is None or update.store.targets[0].scope is not Scope.LOCAL:
        return None
    if sum(loop.kind is LoopKind.TENSOR for loop in update.loops) != 1:
        return None
    return JointSums(node, update, tile_of(update.store.targets, update.loops, "block"))


def _part(vector: Expr, number: int, count: int) -> Expr:
    """One of ``count`` parts of a vector, a power of two."""
    while count > 1:
        count //= 2
        vector = Unary(HIGH_HALF if number & count else LOW_HALF, vector, vector.dtype)
    return vector


def joined(parts: Sequence[Expr]) -> Expr:
    """Vectors one after the other, a power of two of them."""
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [Binary(JOIN, a, b, a.dtype) for a, b in pairs]
    return parts[0]
