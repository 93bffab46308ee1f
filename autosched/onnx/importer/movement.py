"""Importers of operators that pick or repeat elements at places known in advance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from math import prod
from typing import Final

from autosched.graph.ops.base import Shape, broadcast_shape, normalize_axis
from autosched.graph.ops.movement import Expand, Slice, Triangle
from autosched.graph.ops.shape import Pad, Reshape, Transpose
from autosched.onnx.importer.site import Site, UnsupportedError


def import_slice(site: Site) -> None:
    """Slice: bounds are attributes up to opset 9, constant inputs later."""
    shape = site.type(0).shape
    starts, stops = site.integers(1, "starts"), site.integers(2, "ends")
    assert starts is not None and stops is not None  # the checker has seen to it
    axes = site.integers(3, "axes") or tuple(range(len(starts)))
    steps = site.integers(4, "steps") or (1,) * len(starts)
    bounds = [(0, extent, 1) for extent in shape]
    for start, stop, axis, step in zip(starts, stops, axes, steps, strict=True):
        dimension = normalize_axis(axis, len(shape))
        bounds[dimension] = resolved_bounds(start, stop, step, shape[dimension])
    if any(len(range(*each)) == 0 for each in bounds):
        raise UnsupportedError("its result is empty")
    site.emit(slice_of(bounds), [site.input(0)])


def resolved_bounds(start: int, stop: int, step: int, extent: int) -> tuple[int, int, int]:
    """Bounds counted from the front and clamped, as Python's slices do.

    Args:
        start: first index; negative ones count from the end.
        stop: end, not included.
        step: not 0.
        extent: of the dimension.
    """
    return slice(start, None if step < 0 and stop < -extent else stop, step).indices(extent)


def slice_of(bounds: Sequence[tuple[int, int, int]]) -> Slice:
    """The operator of resolved (start, stop, step) for each dimension."""
    start, stop, step = zip(*bounds, strict=True)
    return Slice(tuple(start), tuple(stop), tuple(step))


def import_split(site: Site) -> None:
    """Split: one slice for each output; sizes are an attribute up to opset 12, an input later."""
    shape = site.type(0).shape
    axis = normalize_axis(site.attributes.get("axis", 0), len(shape))
    outputs = len(site.node.output)
    sizes = site.integers(1, "split") or _equal_parts(shape[axis], outputs)
    if len(sizes) != outputs or min(sizes) < 1 or sum(sizes) != shape[axis]:
        raise UnsupportedError(f"extent {shape[axis]} in {outputs} parts of {sizes}")
    data = site.input(0)
    for index, (end, size) in enumerate(zip(accumulate(sizes), sizes, strict=True)):
        bounds = [(0, extent, 1) for extent in shape]
        bounds[axis] = (end - size, end, 1)
        site.emit(slice_of(bounds), [data], index)


def _equal_parts(extent: int, count: int) -> tuple[int, ...]:
    """Parts of one size, the last one smaller where that does not divide the extent."""
    size = -(-extent // count)
    return (*(size,) * (count - 1), extent - size * (count - 1))


def import_expand(site: Site) -> None:
    """Expand: the shape takes part in the broadcast, it need not be the result's."""
    wanted = site.integers(1, "shape")
    assert wanted is not None  # the checker has seen to it
    site.emit(Expand(broadcast_shape((site.type(0).shape, wanted))), [site.input(0)])


def import_tile(site: Site) -> None:
    """Tile, as an expansion between two views: [n] -> [1, n] -> [r, n] -> [r * n]."""
    repeats = site.integers(1, "repeats")
    assert repeats is not None  # the checker has seen to it
    shape = site.type(0).shape
    if min(repeats, default=1) < 1:
        raise UnsupportedError("its result is empty")
    before = tuple(n for extent in shape for n in (1, extent))
    after = tuple(n for extent, count in zip(shape, repeats, strict=True) for n in (count, extent))
    split = site.step(Reshape(before), [site.input(0)])
    repeated = site.step(Expand(after), [split])
    result = tuple(extent * count for extent, count in zip(shape, repeats, strict=True))
    site.emit(Reshape(result), [repeated])


def import_trilu(site: Site) -> None:
    """Trilu with a constant diagonal."""
    diagonal = site.constant(1)
    offset = 0 if diagonal is None else int(diagonal.item())
    site.emit(Triangle(bool(site.attributes.get("upper", 1)), offset), [site.input(0)])


def import_depth_to_space(site: Site) -> None:
    """DepthToSpace, both modes, as a transpose between two views."""
    batch, channels, height, width = site.type(0).shape
    block = site.attributes["blocksize"]
    depth = channels // (block * block)
    if site.attributes.get("mode", "DCR") == "DCR":
        split, order = (batch, block, block, depth, height, width), (0, 3, 4, 1, 5, 2)
    else:
        split, order = (batch, depth, block, block, height, width), (0, 1, 4, 2, 5, 3)
    _emit_regrouped(site, split, order, (batch, depth, height * block, width * block))


def import_space_to_depth(site: Site) -> None:
    """SpaceToDepth, both modes, as a transpose between two views."""
    batch, channels, height, width = site.type(0).shape
    block = site.attributes["blocksize"]
    rows, columns = height // block, width // block
    split = (batch, channels, rows, block, columns, block)
    result = (batch, channels * block * block, rows, columns)
    blocks_first = site.attributes.get("mode", "DCR") == "DCR"
    order = (0, 3, 5, 1, 2, 4) if blocks_first else (0, 1, 3, 5, 2, 4)
    _emit_regrouped(site, split, order, result)


def _emit_regrouped(site: Site, split: Shape, order: tuple[int, ...], result: Shape) -> None:
    if prod(split) != prod(site.type(0).shape):
        raise UnsupportedError(f"shape {site.type(0).shape} does not split into {split}")
    parts = site.step(Reshape(split), [site.input(0)])
    site.emit(Reshape(result), [site.step(Transpose(order), [parts])])


def import_centre_crop_pad(site: Site) -> None:
    """CenterCropPad: a slice where the target is smaller, zeros around where it is larger."""
    shape = site.type(0).shape
    target = site.integers(1, "shape")
    assert target is not None  # the checker has seen to it
    axes = site.attributes.get("axes", range(len(shape)))
    bounds, low, high = [(0, extent, 1) for extent in shape], [0] * len(shape), [0] * len(shape)
    for axis, wanted in zip(axes, target, strict=True):
        dimension = normalize_axis(axis, len(shape))
        surplus = shape[dimension] - wanted
        if surplus >= 0:
            bounds[dimension] = (surplus // 2, surplus // 2 + wanted, 1)
        else:
            low[dimension] = -surplus // 2
            high[dimension] = -surplus - low[dimension]
    middle = site.step(slice_of(bounds), [site.input(0)])
    site.emit(Pad(tuple(low), tuple(high)), [middle])


IMPORT_MOVEMENT: Final[dict[str, Callable[[Site], None]]] = {
    "CenterCropPad": import_centre_crop_pad,
    "DepthToSpace": import_depth_to_space,
    "Expand": import_expand,
    "Slice": import_slice,
    "SpaceToDepth": import_space_to_depth,
    "Split": import_split,
    "Tile": import_tile,
    "Trilu": import_trilu,
}
