"""Grouped convolutions over one axis of output channels, so that vectors hold several groups.

Groups of four channels fill four of sixteen lanes.  With groups and their channels as one axis all
lanes compute; each reads the channel of its own group, a known order of elements side by side.

    y[n, h, w, g, j] = sum over p, q, c of x[n, h + p, w + q, g * C + c] * f[g, p, q, c, j]

    y[n, h, w, o] = sum over p, q, c of x[n, h + p, w + q, o // J * C + c] * f'[p, q, c, o]

The filters ``f'[p, q, c, g * J + j] = f[g, p, q, c, j]`` are made ahead of time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final

from sketch.analysis.access import AffineForm, affine_index, stage_loads
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import Axis, Const, Expr, Load
from sketch.lang.prepared import JoinedDimensions
from sketch.lang.rewrite import rewrite, walk
from sketch.lang.tensor import Compute, Placeholder, SharedBuffer, StoreMap, Tensor
from sketch.nest.loopnest import row_major
from sketch.variants.element_wise import joined_stages
from sketch.variants.rebuild import rebuild

# Channels of which vectors hold whole groups; eight fill half a vector or more by themselves, and
# were as fast so.
_CHANNELS: Final = (2, 4)


def joined_groups(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program with groups and their channels as one axis; None where it is no single sum
    over short groups with element-wise stages after it.
    """
    found = [op for op in dag.stages if _is_grouped(op)]
    if len(found) != 1:
        return None
    (op,) = found
    stores = joined_stages(dag, op, _store)
    if stores is None:
        return None

    def replacement(stage: Compute, current: Callable[[Tensor], Tensor]) -> Tensor | None:
        if id(stage) not in stores:
            return None
        return Tensor(_joined(stage, stores.keys(), current, stores[id(stage)]))

    return rebuild(dag, replacement)


@dataclass(frozen=True, slots=True)
class _Channels:
    """The last two axes of a stage, and the one axis ``joined`` instead of them."""

    group: Axis
    channel: Axis
    joined: Axis

    def index(self, form: AffineForm) -> Expr:
        """An affine index in the joined axis."""
        terms = dict(form[0])
        group, channel = terms.pop(self.group, 0), terms.pop(self.channel, 0)
        parts: list[tuple[Expr, int]] = list(terms.items())
        if group == channel * self.channel.extent:
            parts.insert(0, (self.joined, channel))
        else:
            parts = [*self.halves(group, channel), *parts]
        total: Expr | None = None
        for part, factor in parts:
            if factor:
                term = part if factor == 1 else part * factor
                total = term if total is None else total + term
        if total is None:
            return Const(form[1], "int64")
        return total + form[1] if form[1] else total

    def halves(self, group: int, channel: int) -> list[tuple[Expr, int]]:
        """Multiples of the group and of its channel."""
        size = self.channel.extent
        return [(self.joined // size, group), (self.joined % size, channel)]


def _is_grouped(op: Compute) -> bool:
    """Whether it is a sum with constants of groups and channels, of data that the channels of a
    group share.
    """
    reduce = op.reduce
    if reduce is None or len(reduce.sources) != 1 or reduce.reducer.name != "sum":
        return False
    if len(op.axes) < 2 or op.axes[-2].extent == 1 or op.axes[-1].extent not in _CHANNELS:
        return False
    loads = stage_loads(op)
    weights = [load for load in loads if op.axes[-1] in _axes_of(load)]
    shared = [load for load in loads if load not in weights and op.axes[-2] in _axes_of(load)]
    return (
        bool(shared and weights)
        and all(_joinable(load, op) for load in weights)
        and all(_side_by_side(load, op) for load in shared)
    )


def _axes_of(load: Load) -> set[Axis]:
    return {node for index in load.indices for node in walk(index) if isinstance(node, Axis)}


def _side_by_side(load: Load, op: Compute) -> bool:
    """Whether as many groups as a vector holds read elements of one vector."""
    *others, last = load.indices
    form = affine_index(last, op.all_axes)
    if form is None or any(op.axes[-2] in _axes_in(index) for index in others):
        return False
    return 0 < form[0].get(op.axes[-2], 0) <= op.axes[-1].extent


def _axes_in(index: Expr) -> set[Axis]:
    return {node for node in walk(index) if isinstance(node, Axis)}


def _joinable(load: Load, op: Compute) -> bool:
    """Whether it is an element of a constant at a group and a channel, side by side or not."""
    weight = load.tensor.op
    if not isinstance(weight, Placeholder) or not weight.constant or weight.prepared is not None:
        return False
    if not load.indices:
        return False
    return _at_joined(load, op) or _dimensions(load, op) is not None


def _at_joined(load: Load, op: Compute) -> bool:
    """Whether group and channel are one index already, the last one."""
    *others, last = load.indices
    form = affine_index(last, op.all_axes)
    group, channel = op.axes[-2:]
    if form is None or any({group, channel} & _axes_in(index) for index in others):
        return False
    return form == ({group: channel.extent, channel: 1}, 0)


def _dimensions(load: Load, op: Compute) -> tuple[int, int] | None:
    """The dimensions that the group and its channel walk, each the whole of one."""
    group, channel = op.axes[-2:]
    indices, last = load.indices[:-1], load.indices[-1]
    places = [number for number, index in enumerate(indices) if index is group]
    whole = load.tensor.shape[-1] == channel.extent
    if last is not channel or len(places) != 1 or not whole:
        return None
    (place,) = places
    others = [index for number, index in enumerate(indices) if number != place]
    if any({group, channel} & _axes_in(index) for index in others):
        return None
    return (place, len(indices)) if load.tensor.shape[place] == group.extent else None


def _store(stage: Compute) -> StoreMap | None:
    """Where a joined stage writes; None where groups do not lie side by side."""
    steps = tuple(int(step) for step in row_major(stage.shape))
    store = stage.store or StoreMap(SharedBuffer(stage.name, stage.shape), 0, steps)
    *others, group, channel = store.strides
    if group != channel * stage.axes[-1].extent:
        return None
    return replace(store, strides=(*others, channel))


def _joined(
    stage: Compute,
    joined: Collection[int],
    current: Callable[[Tensor], Tensor],
    store: StoreMap | None,
) -> Compute:
    """A stage over the joined axis.

    Args:
        stage: the convolution, or what follows it.
        joined: ids of these stages.
        current: what stands for a tensor now.
        store: where it writes; None: into an array of its own.
    """
    *others, group, channel = stage.axes
    axis = Axis(channel.name, group.extent * channel.extent, "spatial")
    channels = _Channels(group, channel, axis)
    halves = dict(zip((group, channel), (e for e, _ in channels.halves(1, 1)), strict=True))
    made: dict[int, Tensor] = {}

    def leaf(node: Expr) -> Expr | None:
        if isinstance(node, Axis):
            return halves.get(node)
        if not isinstance(node, Load):
            return None
        if id(node.tensor.op) in joined:
            return Load(current(node.tensor), (*others, axis))
        dimensions = _dimensions(node, stage) if _joinable(node, stage) else None
        if dimensions is None:
            return Load(current(node.tensor), tuple(map(moved, node.indices)))
        tensor = made.setdefault(id(node.tensor.op), _prepared(node.tensor, dimensions))
        indices = [*node.indices[:-1], axis]
        del indices[dimensions[0]]
        return Load(tensor, tuple(indices))

    def moved(index: Expr) -> Expr:
        form = affine_index(index, stage.all_axes)
        uses = {group, channel} & _axes_in(index)
        return rewrite(index, leaf) if form is None or not uses else channels.index(form)

    bodies = tuple(rewrite(body, leaf) for body in stage.bodies)
    return Compute(stage.name, (*others, axis), bodies, store)


def _prepared(tensor: Tensor, dimensions: tuple[int, int]) -> Tensor:
    op = tensor.op
    assert isinstance(op, Placeholder)
    change = JoinedDimensions(op.shape, *dimensions)
    return Tensor(replace(op, shape=change.result_shape, prepared=change))
