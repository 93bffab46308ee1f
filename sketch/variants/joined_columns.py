"""Correlations with few filters over neighbouring results, so that vectors hold several of them.

Three filters fill three of sixteen lanes.  With four neighbours of a line and their filters as one
axis twelve lanes compute; the taps are those of all neighbours together, and a filter is zero where
its own result has none:

    y[n, h, w, o] = sum over p, q, c of x[n, h + p, w + q, c] * f[p, q, c, o]

    y[n, h, J*w + j, o] = sum over p, q', c of x[n, h + p, J*w + q', c] * f'[p, q', c, j*O + o]

with ``f'[p, q', c, j*O + o] = f[p, q' - j, c, o]``, made ahead of time.  3x3 taps are 3x6 for four
neighbours, half of the 4x9 that they have one by one.  Phases of transposed convolutions, which are
neighbours already, and strides move filters likewise.

How many neighbours depends on the lanes: on eight, two neighbours of three filters fill one vector
for 3x4 taps, four of them two vectors for 3x6 taps, half as much again for each result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.expr import Axis, Const, Expr, Load, select
from sketch.lang.prepared import MovedCopies
from sketch.lang.rewrite import rewrite
from sketch.lang.tensor import (
    Compute,
    Placeholder,
    SharedBuffer,
    StoreMap,
    Tensor,
    compute,
    reduce_axis,
)
from sketch.nest.loopnest import row_major
from sketch.operators.window import inside
from sketch.variants.correlation import Correlation, correlation
from sketch.variants.element_wise import joined_stages
from sketch.variants.rebuild import rebuild

LANES: Final = 16
"""Of the longest vectors of float32: no more results are joined."""
LEAST_LANES: Final = 4
"""Of the shortest ones."""
_MOST_FILTERS: Final = 8  # half a vector
_MOST_WORK: Final = 0.7  # of the products that neighbours have one by one


def joined_columns(dag: ComputeDAG, lanes: int = LANES) -> ComputeDAG | None:
    """The same program with several results of a line at once; None where it is no single
    correlation with few filters and element-wise stages after it.

    ``lanes``: of float32 in a vector.
    """
    found = [columns for op in dag.stages if (columns := _columns(op, lanes)) is not None]
    if len(found) != 1:
        return None
    (columns,) = found
    op = columns.match.op
    stores = joined_stages(dag, op, columns.store)
    if stores is None:
        return None

    def replacement(stage: Compute, current: Callable[[Tensor], Tensor]) -> Tensor | None:
        if id(stage) not in stores:
            return None
        store = stores[id(stage)]
        if stage is op:
            return _correlated(columns, current(columns.match.data), store)
        return Tensor(_after(stage, columns, stores.keys(), current, store))

    return rebuild(dag, replacement)


@dataclass(frozen=True, slots=True)
class _Columns:
    """How the results of a line are joined.

    Attributes:
        match: the correlation.
        count: neighbours that are joined; they divide the extent of the line.
        phases: of the last dimension; 1 where it has none.
    """

    match: Correlation
    count: int
    phases: int

    @property
    def filters(self) -> int:
        """Of one result."""
        return self.match.op.axes[-1].extent

    @property
    def kept(self) -> tuple[Axis, ...]:
        """The axes that stay as they are."""
        return self.match.op.axes[: -3 if self.phases > 1 else -2]

    @property
    def line(self) -> Axis:
        """The axis of the positions along a line."""
        return self.match.op.axes[len(self.kept)]

    @property
    def moves(self) -> list[int]:
        """By how many elements of the data each copy of the filters is moved, in their order."""
        stride, slope = self.match.strides[-1], self.match.kernel[-1].slope
        return [stride * j + slope * f for j in range(self.count) for f in range(self.phases)]

    @property
    def taps(self) -> int:
        """Along the line, of all neighbours together."""
        tap = self.match.taps[-1]
        return max(self.moves) + (1 if tap is None else tap.extent)

    @property
    def alone(self) -> int:
        """Taps that neighbours have one by one."""
        tap = self.match.taps[-1]
        return self.count * self.phases * (1 if tap is None else tap.extent)

    def vectors(self, lanes: int) -> float:
        """Of ``lanes`` elements that are computed for a position along the line."""
        return -(-self.count * self.phases * self.filters // lanes) * self.taps / self.count

    def original_axes(self, stage: Compute, position: Axis, joined: Axis) -> dict[Axis, Expr]:
        """The axes of a stage that are joined, in the new ones."""
        line, filters = stage.axes[len(self.kept)], stage.axes[-1]
        found: dict[Axis, Expr] = {
            line: position * self.count + joined // (self.filters * self.phases),
            filters: joined % self.filters,
        }
        if self.phases > 1:
            found[stage.axes[-2]] = joined // self.filters % self.phases
        return found

    def store(self, stage: Compute) -> StoreMap | None:
        """Where a joined stage writes; None where neighbours do not lie side by side."""
        steps = tuple(int(step) for step in row_major(stage.shape))
        store = stage.store or StoreMap(SharedBuffer(stage.name, stage.shape), 0, steps)
        *others, last = store.strides
        wanted = [last * self.filters]
        if self.phases > 1:
            wanted.insert(0, wanted[0] * self.phases)
        if others[-len(wanted) :] != wanted:
            return None
        kept = others[: -len(wanted)]
        return replace(store, strides=(*kept, self.count * wanted[0], last))


def _columns(op: Compute, lanes: int) -> _Columns | None:
    """How results are joined, if that pays."""
    match = correlation(op)
    if match is None or match.data.dtype != "float32" or op.output_dtypes != ("float32",):
        return None
    if set(match.spacings) != {1}:
        return None
    kernel = match.kernel[-1]
    phases = kernel.phases if kernel.phase is not None else 1
    filters, between = op.axes[-1].extent, len(op.axes) - 2
    # The line, its phase and the filters are the last axes.
    if match.places[-1] != between - (1 if phases == 1 else 2):
        return None
    if (phases > 1 and kernel.phase != between - 1) or filters * phases > _MOST_FILTERS:
        return None
    if kernel.slope < 0:  # neighbours would read to the left
        return None
    extent = op.axes[match.places[-1] + 1].extent
    # Which programs have a variant does not depend on the lanes: nor do the tasks of a network.
    counts = [n for n in range(LANES // (filters * phases), 1, -1) if extent % n == 0]
    choices = [_Columns(match, count, phases) for count in counts or [1]]
    paying = [choice for choice in choices if choice.taps <= _MOST_WORK * choice.alone]
    return min(paying, key=lambda choice: choice.vectors(lanes), default=None)


def _correlated(columns: _Columns, data: Tensor, store: StoreMap | None) -> Tensor:
    """The joined results of the correlation of ``data``."""
    match, op = columns.match, columns.match.op
    taps = [None if t is None else reduce_axis(t.extent, t.name) for t in match.taps[:-1]]
    along = reduce_axis(columns.taps, "taps" if match.taps[-1] is None else match.taps[-1].name)
    channel = reduce_axis(data.shape[-1], op.reduce_axes[-1].name)
    weight = _moved(columns)

    def element(*axes: Axis) -> Expr:
        kept, position, joined = axes[:-2], axes[-2], axes[-1]
        between = kept[1:]
        indices: list[Expr] = []
        kernel: list[Expr] = []
        sides = zip(match.places, match.strides, match.before, match.kernel, taps, strict=False)
        for place, stride, before, which, tap in sides:
            index: Expr = between[place] * stride - before
            read: Expr = Const(which.start, "int64")
            if which.phase is not None:
                index = index + between[which.phase] * which.slope
                read = read + between[which.phase] * which.turn
            if tap is not None:
                index, read = index + tap, read + tap * which.step
            indices.append(index)
            kernel.append(read)
        step = match.strides[-1] * columns.count
        indices.append(position * step + along - match.before[-1])
        term = data[(kept[0], *indices, channel)] * weight[(*kernel, along, channel, joined)]
        known = inside(*zip(indices, data.shape[1:-1], strict=True))
        used = [tap for tap in taps if tap is not None]
        term = term if known is None else select(known, term, 0.0)
        return reducers.sum(term, axis=(*used, along, channel))

    shape = (*(axis.extent for axis in columns.kept), *_extents(columns))
    names = [axis.name for axis in (*columns.kept, columns.line, op.axes[-1])]
    made: Tensor = compute(shape, element, op.name, axis_names=names)
    assert isinstance(made.op, Compute)
    return made if store is None else Tensor(replace(made.op, store=store))


def _extents(columns: _Columns) -> tuple[int, int]:
    """Of the position along a line, and of the joined axis."""
    joined = columns.count * columns.phases * columns.filters
    return columns.line.extent // columns.count, joined


def _moved(columns: _Columns) -> Tensor:
    """A copy of the filters for each neighbour, where its own results are."""
    match, op = columns.match, columns.match.weight.op
    assert isinstance(op, Placeholder)
    kernel, tap = match.kernel[-1], match.taps[-1]
    phases = [f for _ in range(columns.count) for f in range(columns.phases)]
    extent = 1 if tap is None else tap.extent

    def source(place: int, move: int, phase: int) -> int:
        own = place - move
        return kernel.start + kernel.step * own + kernel.turn * phase if 0 <= own < extent else -1

    pairs = list(zip(columns.moves, phases, strict=True))
    sources = tuple(tuple(source(t, *pair) for pair in pairs) for t in range(columns.taps))
    change = MovedCopies(op.shape, len(op.shape) - 3, sources)
    return Tensor(replace(op, shape=change.result_shape, prepared=change))


def _after(
    stage: Compute,
    columns: _Columns,
    joined: Collection[int],
    current: Callable[[Tensor], Tensor],
    store: StoreMap | None,
) -> Compute:
    """An element-wise stage over the joined axes.

    Args:
        stage: what follows the correlation.
        columns: how it is joined.
        joined: ids of these stages.
        current: what stands for a tensor now.
        store: where it writes; None: into an array of its own.
    """
    kept = stage.axes[: len(columns.kept)]
    line, filters = stage.axes[len(kept)], stage.axes[-1]
    extents = _extents(columns)
    position, together = (
        Axis(line.name, extents[0], "spatial"),
        Axis(filters.name, extents[1], "spatial"),
    )
    halves = columns.original_axes(stage, position, together)

    def leaf(node: Expr) -> Expr | None:
        if isinstance(node, Axis):
            return halves.get(node)
        if not isinstance(node, Load):
            return None
        if id(node.tensor.op) in joined:
            return Load(current(node.tensor), (*kept, position, together))
        return Load(current(node.tensor), tuple(rewrite(index, leaf) for index in node.indices))

    bodies = tuple(rewrite(body, leaf) for body in stage.bodies)
    return Compute(stage.name, (*kept, position, together), bodies, store)
