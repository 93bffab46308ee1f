"""Values computed by several stages that share a buffer, and epilogues on such values.

A part writes element ``sum of strides * axes + offset`` in each dimension of the buffer: a phase of
a transposed convolution, the groups of a grouped one as axes of their own, a piece of a
concatenation.  What is applied to the whole value element by element is applied to each part
instead, so that it can be fused, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sketch.analysis.access import affine_index, reads
from sketch.analysis.store_places import Coordinate, place_of
from sketch.dag.dag import ComputeDAG
from sketch.errors import ExpressionError
from sketch.lang.expr import Axis, Const, Expr, Load
from sketch.lang.rewrite import rewrite
from sketch.lang.tensor import Compute, Operation, SharedBuffer, StoreMap, Tensor
from sketch.nest.loopnest import row_major


def stored(
    tensor: Tensor,
    buffer: SharedBuffer,
    coordinates: Sequence[Coordinate],
    order: Sequence[int] | None = None,
) -> Tensor:
    """``tensor`` writing to its place in a value.

    Args:
        tensor: output of a stage.
        buffer: that holds the whole value.
        coordinates: of an element in the value, one for each dimension.
        order: dimension d of the buffer is dimension ``order[d]`` of the value; None: the same.
    """
    order = range(len(buffer.shape)) if order is None else order
    steps = dict(zip(order, (int(s) for s in row_major(buffer.shape)), strict=True))
    strides = [0] * tensor.ndim
    for dimension, (_, terms) in enumerate(coordinates):
        for axis, stride in terms.items():
            strides[axis] += stride * steps[dimension]
    offset = sum(start * steps[d] for d, (start, _) in enumerate(coordinates))
    return _with_store(tensor, StoreMap(buffer, offset, tuple(strides)))


def merged_channels(
    tensor: Tensor, strides: Sequence[int], name: str, order: Sequence[int] | None = None
) -> Tensor:
    """``tensor``, whose last ``len(strides)`` axes are parts of the channel, as ``[..., O]``.

    Args:
        tensor: output of a stage.
        strides: of those axes in the channel.
        name: of the shared buffer.
        order: dimension d of the buffer is dimension ``order[d]`` of the value; None: the same.
    """
    first = tensor.ndim - len(strides)
    channel = {first + k: stride for k, stride in enumerate(strides)}
    outputs = 1
    for extent in tensor.shape[first:]:
        outputs *= extent
    coordinates: list[Coordinate] = [(0, {d: 1}) for d in range(first)]
    shape = (*tensor.shape[:first], outputs)
    extents = shape if order is None else tuple(shape[d] for d in order)
    return stored(tensor, SharedBuffer(name, extents), [*coordinates, (0, channel)], order)


def apply_to_parts(
    parts: Sequence[Tensor], whole: Tensor, result: Tensor, name: str
) -> tuple[Tensor, ...]:
    """``result``, an element-wise function of ``whole``, with ``parts`` in the place of ``whole``.

    Every stage between the two is computed part by part; the last ones share the buffer ``name``.

    Args:
        parts: stages that share a buffer, which has the shape of ``whole``.
        whole: stands for the buffer among the operands of ``result``.
        result: has the shape of ``whole``, and so has all that depends on ``whole``.
        name: name of the new buffer.

    Raises:
        ExpressionError: a stage reads ``whole`` at another place than its own.
    """
    stages = _dependent_stages(whole, result)
    assert isinstance(parts[0].op, Compute) and parts[0].op.store is not None
    buffer = replace(parts[0].op.store.buffer, name=name)
    return tuple(
        _part_of_result(part, whole, stages, buffer, f".{number}" if len(parts) > 1 else "")
        for number, part in enumerate(parts)
    )


def _with_store(tensor: Tensor, store: StoreMap | None, name: str | None = None) -> Tensor:
    assert isinstance(tensor.op, Compute)
    return Tensor(replace(tensor.op, store=store, name=name or tensor.op.name), tensor.output)


def _dependent_stages(whole: Tensor, result: Tensor) -> tuple[Compute, ...]:
    """The stages from ``whole`` to ``result``, in execution order."""
    dependent: set[int] = {id(whole.op)}
    found = []
    for op in ComputeDAG([result]).stages:
        if any(id(tensor.op) in dependent for tensor in reads(op)):
            dependent.add(id(op))
            _expect_own_point(op, whole, dependent)
            found.append(op)
    return tuple(found)


def _expect_own_point(op: Compute, whole: Tensor, dependent: set[int]) -> None:
    own = all(
        form == ({axis: 1}, 0) or (axis.extent == 1 and form == ({}, 0))
        for tensor, places in reads(op).items()
        if id(tensor.op) in dependent
        for indices in places
        for form, axis in zip((affine_index(i) for i in indices), op.axes, strict=True)
    )
    if op.reduce is not None or op.shape != whole.shape or not own:
        raise ExpressionError(
            f"is no element-wise function of {whole.name}, which several stages compute",
            f"stage {op.name}",
        )


def _part_of_result(
    part: Tensor, whole: Tensor, stages: Sequence[Compute], buffer: SharedBuffer, suffix: str
) -> Tensor:
    assert isinstance(part.op, Compute) and part.op.store is not None
    store = part.op.store
    coordinates = place_of(part.op)
    computed: dict[int, Operation] = {id(whole.op): _with_store(part, None).op}
    for op in stages:
        axes = tuple(Axis(a.name, a.extent, "spatial") for a in part.op.axes)
        last = replace(store, buffer=buffer) if op is stages[-1] else None
        bodies = tuple(_at_part(body, op, axes, coordinates, computed) for body in op.bodies)
        label = buffer.name if op is stages[-1] else op.name
        computed[id(op)] = Compute(f"{label}{suffix}", axes, bodies, last)
    return Tensor(computed[id(stages[-1])])


def _at_part(
    body: Expr,
    op: Compute,
    axes: tuple[Axis, ...],
    coordinates: Sequence[Coordinate],
    computed: Mapping[int, Operation],
) -> Expr:
    """``body`` of ``op`` at the points of a part, reading of the part what has been computed."""
    points = {
        axis: _point(axes, coordinate)
        for axis, coordinate in zip(op.axes, coordinates, strict=True)
    }

    def leaf(node: Expr) -> Expr | None:
        if isinstance(node, Axis):
            return points.get(node)
        if isinstance(node, Load) and id(node.tensor.op) in computed:
            return Load(Tensor(computed[id(node.tensor.op)], node.tensor.output), axes)
        return None

    return rewrite(body, leaf)


def _point(axes: Sequence[Axis], coordinate: Coordinate) -> Expr:
    offset, terms = coordinate
    total: Expr = Const(0, "int64")
    for position, stride in terms.items():
        total = total + axes[position] * stride
    return total + offset
