"""Converters of operators that move elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from math import prod
from typing import Final

from autosched.graph.ops.base import Shape, normalize_axis
from autosched.graph.ops.movement import Expand, Slice, Triangle
from autosched.graph.ops.shape import Concat, Pad, Reshape, Transpose
from autosched.torch_frontend.aten.call import AtenCall, Converter, axis_of


def _filled(shape: Sequence[int], size: int) -> Shape:
    """``shape`` with the extent that makes ``size`` elements in place of -1."""
    known = prod(extent for extent in shape if extent != -1)
    return tuple(size // known if extent == -1 else extent for extent in shape)


def _view(call: AtenCall) -> str:
    data = call.value("self")
    return call.add(Reshape(_filled(call["size"], call.type_of(data).size)), data)


def _unsqueeze(call: AtenCall) -> str:
    shape, axis = call.shape("self"), axis_of(call, more=1)
    return call.add(Reshape((*shape[:axis], 1, *shape[axis:])), call.value("self"))


def _squeeze(call: AtenCall) -> str:
    """Some dimensions, or all; those of other extents stay."""
    shape, given = call.shape("self"), call.given.get("dim", range(len(call.shape("self"))))
    listed = [given] if isinstance(given, int) else given
    axes = {normalize_axis(axis, len(shape)) for axis in listed}
    left = tuple(n for axis, n in enumerate(shape) if axis not in axes or n != 1)
    return call.add(Reshape(left), call.value("self"))


def _permute(call: AtenCall) -> str:
    rank = len(call.shape("self"))
    order = tuple(normalize_axis(axis, rank) for axis in call["dims"])
    return call.add(Transpose(order), call.value("self"))


def _transpose(call: AtenCall) -> str:
    order = list(range(len(call.shape("self"))))
    first, second = axis_of(call, "dim0"), axis_of(call, "dim1")
    order[first], order[second] = order[second], order[first]
    return call.add(Transpose(tuple(order)), call.value("self"))


def _t(call: AtenCall) -> str:
    """A matrix transposed; less than a matrix stays."""
    order = tuple(reversed(range(len(call.shape("self")))))
    return call.add(Transpose(order), call.value("self"))


def _expand(call: AtenCall) -> str:
    """An extent of -1 is the one that is there."""
    shape, wanted = call.shape("self"), call["size"]
    own = (-1,) * (len(wanted) - len(shape)) + shape
    whole = tuple(o if n == -1 else n for n, o in zip(wanted, own, strict=True))
    return call.add(Expand(whole), call.value("self"))


def _repeat(call: AtenCall) -> str:
    """An expansion between two views: [n] -> [1, n] -> [r, n] -> [r * n]."""
    counts = call["repeats"]
    shape = (1,) * (len(counts) - len(call.shape("self"))) + call.shape("self")
    pairs = list(zip(counts, shape, strict=True))
    split = call.add(Reshape(tuple(n for extent in shape for n in (1, extent))), call.value("self"))
    repeated = call.add(Expand(tuple(n for pair in pairs for n in pair)), split)
    return call.add(Reshape(tuple(map(prod, pairs))), repeated)


def _cat(call: AtenCall) -> str:
    """Tensors of one dimension without elements count for nothing."""
    parts = [part for part in call["tensors"] if tuple(part.shape) != (0,)]
    names = [call.named(part) for part in parts]
    call.require({call.type_of(name).dtype for name in names} == {call.dtype}, "several dtypes")
    axis = normalize_axis(call["dim"], len(parts[0].shape))
    return call.add(Concat(axis), *names)


def _stack(call: AtenCall) -> str:
    names = [call.named(part) for part in call["tensors"]]
    call.require({call.type_of(name).dtype for name in names} == {call.dtype}, "several dtypes")
    shape = call.type_of(names[0]).shape
    axis = normalize_axis(call["dim"], len(shape) + 1)
    row = Reshape((*shape[:axis], 1, *shape[axis:]))
    return call.add(Concat(axis), *(call.add(row, name) for name in names))


def part(call: AtenCall, axis: int, start: int, stop: int, step: int = 1) -> str:
    """Some positions of one dimension.

    Args:
        call: of an operator whose data is ``self``.
        axis: counted from the front.
        start: first position.
        stop: end, not included.
        step: distance of positions.
    """
    shape = call.shape("self")
    bounds = [(0, extent, 1) for extent in shape]
    bounds[axis] = (start, stop, step)
    starts, stops, steps = zip(*bounds, strict=True)
    return call.add(Slice(tuple(starts), tuple(stops), tuple(steps)), call.value("self"))


def _slice(call: AtenCall) -> str:
    axis = axis_of(call)
    bounds = slice(call["start"], call["end"], call["step"])
    return part(call, axis, *bounds.indices(call.shape("self")[axis]))


def _select(call: AtenCall) -> str:
    axis, shape = axis_of(call), call.shape("self")
    place = normalize_axis(call["index"], shape[axis])
    picked = part(call, axis, place, place + 1)
    return call.add(Reshape((*shape[:axis], *shape[axis + 1 :])), picked)


def _split(call: AtenCall) -> tuple[str, ...]:
    extent, size = call.shape("self")[axis_of(call)], call["split_size"]
    return _parts(call, [min(size, extent - start) for start in range(0, extent, size)])


def _split_with_sizes(call: AtenCall) -> tuple[str, ...]:
    return _parts(call, call["split_sizes"])


def _parts(call: AtenCall, sizes: Sequence[int]) -> tuple[str, ...]:
    axis = axis_of(call)
    ends = accumulate(sizes)
    return tuple(part(call, axis, end - size, end) for end, size in zip(ends, sizes, strict=True))


def _unbind(call: AtenCall) -> tuple[str, ...]:
    axis, shape = axis_of(call), call.shape("self")
    parts = _parts(call, [1] * shape[axis])
    left = Reshape((*shape[:axis], *shape[axis + 1 :]))
    return tuple(call.add(left, part) for part in parts)


def _flip(call: AtenCall) -> str:
    shape = call.shape("self")
    axes = {normalize_axis(axis, len(shape)) for axis in call["dims"]}
    bounds = [(n - 1, -1, -1) if axis in axes else (0, n, 1) for axis, n in enumerate(shape)]
    starts, stops, steps = zip(*bounds, strict=True)
    return call.add(Slice(tuple(starts), tuple(stops), tuple(steps)), call.value("self"))


def _pad(call: AtenCall) -> str:
    """Pairs of the last dimension come first."""
    pairs, rank = call["pad"], len(call.shape("self"))
    call.require(min(pairs, default=0) >= 0, "padding that cuts")
    rest = (0,) * (rank - len(pairs) // 2)
    low, high = (rest + tuple(pairs[side::2][::-1]) for side in (0, 1))
    return call.add(Pad(low, high, call["value"] or 0), call.value("self"))


def _triangle(upper: bool, call: AtenCall) -> str:
    return call.add(Triangle(upper, call["diagonal"]), call.value("self"))


MOVEMENT: Final[Mapping[str, Converter]] = {
    "_unsafe_view.default": _view,
    "cat.default": _cat,
    "constant_pad_nd.default": _pad,
    "expand.default": _expand,
    "flip.default": _flip,
    "permute.default": _permute,
    "repeat.default": _repeat,
    "select.int": _select,
    "slice.Tensor": _slice,
    "split.Tensor": _split,
    "split_with_sizes.default": _split_with_sizes,
    "squeeze.default": _squeeze,
    "squeeze.dim": _squeeze,
    "squeeze.dims": _squeeze,
    "stack.default": _stack,
    "t.default": _t,
    "transpose.int": _transpose,
    "tril.default": partial(_triangle, False),
    "triu.default": partial(_triangle, True),
    "unbind.int": _unbind,
    "unsqueeze.default": _unsqueeze,
    "view.default": _view,
}
