"""The loop nest of a placed program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sketch.lang.affine import UNBOUNDED
from sketch.lang.dtypes import BOOL
from sketch.lang.expr import Axis, Binary, Const, Expr, Load, Reducer, Select
from sketch.lang.rewrite import children
from sketch.lang.tensor import Tensor
from sketch.lower.body import lower_body, merge_predicates
from sketch.lower.buffers import Buffers, make_buffers
from sketch.lower.needs import lowered_needs
from sketch.lower.placement import PlacedLoop, PlacedStage, Placement, loads_of, place
from sketch.lower.scattered import placed_by_data
from sketch.lower.skipped_nan import maxima_that_skip_nan
from sketch.nest.loopnest import (
    Affine,
    AffineValue,
    Allocate,
    Buffer,
    Index,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Num,
    Predicate,
    Quasi,
    Scope,
    Store,
)
from sketch.schedule.decision import DecisionId
from sketch.schedule.program import tensors_read
from sketch.schedule.sketch import Sketch
from sketch.schedule.stage import StageId


def lower(sketch: Sketch, values: Mapping[DecisionId, Num]) -> LoopNest:
    """Lower one candidate (ints) or a population (int64 arrays ``[P]``).

    The structure of the result depends on the sketch alone.

    Raises:
        LoweringError: a decision has no value, or the steps cannot work together.
    """
    nest, _ = lower_by_root(sketch, values)
    return nest


def lower_by_root(
    sketch: Sketch, values: Mapping[DecisionId, Num], outline: bool = False
) -> tuple[LoopNest, Mapping[StageId, LoopNest]]:
    """As ``lower``; and the part of the nest that each root stage is.

    Args:
        sketch: what is lowered.
        values: of its decisions.
        outline: loops, buffers and what is stored where; statements have the bodies of their
            stages as they are written, and no indices and predicates.

    Raises:
        LoweringError: a decision has no value, or the steps cannot work together.
    """
    placement = place(sketch.program, values)
    buffers = make_buffers(placement)
    emitter = _Emitter(placement, buffers, outline, maxima_that_skip_nan(sketch.dag))
    roots = {
        stage.plan.id: emitter.stage(stage)
        for stage in placement.stages.values()
        if stage.plan.attach is None
    }
    nest = LoopNest(
        name=sketch.dag.outputs[0].name,
        arguments=buffers.arguments,
        workspaces=buffers.workspaces,
        roots=tuple(node for nodes in roots.values() for node in nodes),
        rules=sketch.rules,
    )
    return nest, {stage: replace(nest, roots=nodes) for stage, nodes in roots.items()}


@dataclass(frozen=True, slots=True)
class _Emitter:
    placement: Placement
    buffers: Buffers
    outline: bool
    skipping: frozenset[int]

    def stage(self, stage: PlacedStage) -> tuple[Node, ...]:
        """All nodes of a stage, with what is attached to it."""
        return self._loops(stage, 0)

    def _loops(self, stage: PlacedStage, depth: int) -> tuple[Node, ...]:
        if depth == len(stage.loops):
            return (self._statement(stage),)
        loop = stage.loops[depth]
        if loop.axis in placed_by_data(stage, self.placement):
            return self._loops(stage, depth + 1)
        body = self._attach(stage, loop, self._loops(stage, depth + 1))
        kind = loop.axis.kind
        clip = () if self.outline else self._clip(stage, depth)
        rows = self._together(stage, loop)
        node = Loop(loop.var, loop.trips, loop.stride, loop.kind, kind, body, clip, rows)
        if kind == "reduce" and all(p.axis.kind == "spatial" for p in stage.loops[:depth]):
            return (*self._initialise(stage, depth), node)
        return (node,)

    def _clip(self, stage: PlacedStage, depth: int) -> tuple[Predicate, ...]:
        """Skip the trips of a serial tile loop that start beyond the end of the axis.

        The outermost level never does, unless the tiles are those of a product that another
        reduction reads, which has tiles of its own; inner ones do where tiles do not divide the
        axis.
        """
        loop = stage.loops[depth]
        axis = loop.axis
        outer = [p for p in stage.loops[:depth] if p.axis is axis]
        based = stage.base.get(axis, Affine(()))
        split = stage.plan.axis(axis) in stage.plan.splits
        if loop.kind is not LoopKind.SERIAL or not split:
            return ()
        if not (outer or based.terms or (axis in stage.base and self._is_read_in_tiles(stage))):
            return ()
        start = based + Affine(tuple((p.var, p.unit) for p in (*outer, loop)))
        return (Predicate(start, -UNBOUNDED, axis.extent),)

    def _is_read_in_tiles(self, stage: PlacedStage) -> bool:
        """Whether a reduction reads the tiles of another one that ``stage`` is the last of."""
        readers = self.placement.program.consumers(stage.plan.op)
        tiled = any(self.placement.attached(stage.plan.id, loop.id) for loop in stage.loops)
        return tiled and any(reader.op.reduce is not None for reader in readers)

    def _together(self, stage: PlacedStage, loop: PlacedLoop) -> Num:
        """Blocks along a loop that start before the loops inside it go on."""
        order = stage.plan.blocks
        if order is None or order.loop != loop.id:
            return 1
        return self.placement.number(order.rows)

    def _attach(
        self, stage: PlacedStage, loop: PlacedLoop, body: tuple[Node, ...]
    ) -> tuple[Node, ...]:
        inner = self.placement.attached(stage.plan.id, loop.id)
        nodes = body
        for producer in reversed(inner):
            nodes = (*self.stage(producer), *nodes)
            for buffer in self._targets(producer):
                nodes = (Allocate(buffer, nodes),)
        return nodes

    def _targets(self, stage: PlacedStage) -> tuple[Buffer, ...]:
        op = stage.plan.op
        tensors = self.buffers.tensors
        return tuple(tensors[op, n].buffer for n in range(len(op.output_dtypes)))

    def _located(self, stage: PlacedStage, coordinates: tuple[Index, ...]) -> tuple[Index, ...]:
        return self.buffers.view(Tensor(stage.plan.op, 0), stage).locate(coordinates)

    def _statement(self, stage: PlacedStage) -> Store:
        reduce = stage.plan.op.reduce
        if self.outline:
            return self._outlined(
                stage,
                stage.plan.op.bodies if reduce is None else reduce.sources,
                None if reduce is None else reduce.reducer,
            )
        body = lower_body(stage, self.placement, self.buffers)
        placed = any(isinstance(coordinate, Quasi) for coordinate in body.coordinates)
        end, bounds = self._group_end(stage), self._bounds(stage)
        predicates = merge_predicates((*body.predicates, *(p for p in bounds if p != end)))
        values = body.values
        if end is not None and end in bounds:
            values = tuple(_zero_unless(end, value) for value in values)
        return Store(
            targets=self._targets(stage),
            indices=self._located(stage, body.coordinates),
            values=values,
            reducer=None if reduce is None else self._reducer(stage, reduce.reducer),
            predicates=predicates,
            stage=stage.plan.op,
            # Needs are about loops: terms that data place have none along what they would tell.
            needs=() if placed else lowered_needs(self.placement.program, stage),
        )

    def _reducer(self, stage: PlacedStage, reducer: Reducer) -> Reducer:
        skips = stage.plan.id.first in self.skipping
        return replace(reducer, skips_nan=True) if skips else reducer

    def _outlined(
        self, stage: PlacedStage, values: tuple[Expr, ...], reducer: Reducer | None = None
    ) -> Store:
        return Store(self._targets(stage), (), values, reducer, (), stage.plan.op)

    def _initialise(self, stage: PlacedStage, depth: int) -> tuple[Node, ...]:
        """Store identities in all that the reduce loops from ``depth`` on accumulate into."""
        reduce = stage.plan.op.reduce
        assert reduce is not None
        inside = [loop for loop in stage.loops[depth:] if loop.axis.kind == "spatial"]
        renamed = {loop.var: LoopVar(f"{loop.var.name}.init", axis=loop.axis) for loop in inside}
        node: Node
        if self.outline:
            node = self._outlined(stage, reduce.reducer.identity)
        else:
            node = self._identities(stage, renamed)
        for loop in reversed(inside):
            var = renamed[loop.var]
            node = Loop(var, loop.trips, loop.stride, loop.kind, "spatial", (node,))
        return (node,)

    def _identities(self, stage: PlacedStage, renamed: Mapping[LoopVar, LoopVar]) -> Store:
        reduce = stage.plan.op.reduce
        assert reduce is not None
        coordinates = tuple(stage.coordinate(axis) for axis in stage.plan.op.axes)
        predicates: tuple[Predicate, ...] = ()
        if self._targets(stage)[0].scope is not Scope.LOCAL:
            predicates = tuple(
                Predicate(_rename_affine(p.index, renamed), p.low, p.high)
                for p in self._bounds(stage, spatial_only=True)
            )
        return Store(
            targets=self._targets(stage),
            indices=tuple(_rename(index, renamed) for index in self._located(stage, coordinates)),
            values=reduce.reducer.identity,
            predicates=predicates,
            stage=stage.plan.op,
            needs=tuple(
                replace(need, places=tuple(_rename_affine(place, renamed) for place in need.places))
                for need in lowered_needs(self.placement.program, stage, elements_only=True)
            ),
        )

    def _bounds(self, stage: PlacedStage, spatial_only: bool = False) -> tuple[Predicate, ...]:
        """Predicates for every axis whose loops may walk beyond its extent."""
        op = stage.plan.op
        axes = op.axes if spatial_only else op.all_axes
        return tuple(
            Predicate(stage.coordinate(axis), 0, axis.extent)
            for axis in axes
            if self._may_overrun(stage, axis)
        )

    def _group_end(self, stage: PlacedStage) -> Predicate | None:
        """The bound of the axis of which a tensor unit takes several elements of a copy at a time:
        those behind the last one are zeros.
        """
        group = self.buffers.tensors[stage.plan.op, 0].group
        if group is None:
            return None
        axis = stage.plan.op.axes[group.dim]
        if axis.extent % group.size == 0:
            return None
        return Predicate(stage.coordinate(axis), 0, axis.extent)

    def _may_overrun(self, stage: PlacedStage, axis: Axis) -> bool:
        """Whether loops of ``axis`` may leave it in some row; never answered by one row alone."""
        based = stage.base.get(axis)
        moved = based is not None and bool(based.terms or based.const)
        longer = axis not in stage.fixed or bool(stage.extents[axis] > axis.extent)
        if stage.plan.axis(axis) not in stage.plan.splits and not moved and not longer:
            return False
        return not self._zero_padded(stage, axis)

    def _zero_padded(self, stage: PlacedStage, axis: Axis) -> bool:
        """Whether lanes of ``axis`` beyond its extent are harmless: a private accumulator whose
        terms depend on the axis through packed tensors alone, which are padded.
        """
        if stage.plan.attach is None or stage.plan.op.reduce is None or axis.kind == "reduce":
            return False
        for tensor in tensors_read(stage.plan.op):
            pack = self.buffers.tensors[tensor.op, tensor.output].pack
            for load in loads_of(stage.plan, tensor.op):
                for dim, index in enumerate(load.indices):
                    if _depends(index, axis) and (pack is None or pack.dim != dim):
                        return False
        return not any(_depends(body, axis, outside_loads=True) for body in stage.plan.op.bodies)


def _zero_unless(end: Predicate, value: Expr) -> Expr:
    inside = Binary("lt", AffineValue(end.index), Const(end.high, "int64"), BOOL)
    return Select(inside, value, Const(0, value.dtype))


def _depends(node: Expr, axis: Axis, outside_loads: bool = False) -> bool:
    if node is axis:
        return True
    if outside_loads and isinstance(node, Load):
        return False
    return any(_depends(child, axis, outside_loads) for child in children(node))


def _rename_affine(index: Affine, renamed: Mapping[LoopVar, LoopVar]) -> Affine:
    return Affine(tuple((renamed.get(v, v), c) for v, c in index.terms), index.const)


def _rename(index: Index, renamed: Mapping[LoopVar, LoopVar]) -> Index:
    return _rename_affine(index, renamed) if isinstance(index, Affine) else index
