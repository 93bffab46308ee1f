"""Operators of random graphs that move elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from campaign.graphs.graph import Graph, Rejected, Tensor

_ANY: Final = ("float32", "float32", "float32", "float64", "float16", "int32", "int64", "bool")
_RANKED: Final = (1, 2, 3, 4)


def _longs(graph: Graph, values: Any) -> Tensor:
    return graph.constant("int64", np.array(values, np.int64))


def _axis(graph: Graph, data: Tensor, more: int = 0) -> int:
    rank = len(data.shape) + more
    return graph.rng.randrange(-rank, rank)


def _transpose(graph: Graph) -> Tensor:
    data = graph.pick(_ANY)
    order = list(range(len(data.shape)))
    graph.rng.shuffle(order)
    attributes: dict[str, Any] = {"perm": order} if graph.rng.random() < 0.8 and order else {}
    return graph.add("Transpose", [data], exact=True, **attributes)


def _reshape(graph: Graph) -> Tensor:
    data = graph.pick(_ANY)
    shape: list[int] = [1]
    for extent in data.shape:  # merge and split
        if graph.rng.random() < 0.5:
            shape[-1] *= extent
        else:
            shape.append(extent)
    if 0 not in data.shape and graph.rng.random() < 0.5:
        shape[graph.rng.randrange(len(shape))] = -1
    return graph.add("Reshape", [data, _longs(graph, shape)], exact=True, allowzero=1)


def _flatten(graph: Graph) -> Tensor:
    data = graph.pick(_ANY, _RANKED)
    return graph.add("Flatten", [data], exact=True, axis=_axis(graph, data))


def _squeeze(graph: Graph) -> Tensor:
    data = graph.pick(_ANY)
    ones = [d for d, extent in enumerate(data.shape) if extent == 1]
    if not ones:
        raise Rejected("nothing to squeeze")
    chosen = graph.rng.sample(ones, graph.rng.randrange(1, len(ones) + 1))
    axes = [_longs(graph, chosen)] if graph.rng.random() < 0.8 else []
    return graph.add("Squeeze", [data, *axes], exact=True)


def _unsqueeze(graph: Graph) -> Tensor:
    data = graph.pick(_ANY, (0, 1, 2, 3))
    axes = graph.rng.sample(range(len(data.shape) + 2), 2)[: graph.rng.choice((1, 2))]
    axes = [a if a <= len(data.shape) + len(axes) - 1 else 0 for a in axes]
    return graph.add("Unsqueeze", [data, _longs(graph, sorted(set(axes)))], exact=True)


def _concat(graph: Graph) -> Tensor:
    data = graph.pick(_ANY, _RANKED)
    axis = _axis(graph, data)
    others = []
    for _ in range(graph.rng.choice((0, 1, 1, 2))):
        shape = list(data.shape)
        shape[axis] = graph.rng.choice((1, 2, 3, 5))
        others.append(graph.new_input(data.dtype, shape))
    parts = [data, *others]
    graph.rng.shuffle(parts)
    return graph.add("Concat", parts, exact=True, axis=axis)


def _split(graph: Graph) -> Tensor:
    data = graph.pick(_ANY, _RANKED)
    axis = _axis(graph, data)
    extent = data.shape[axis]
    if extent < 2:
        raise Rejected("nothing to split")
    if graph.rng.random() < 0.4:
        return graph.add("Split", [data], 2, exact=True, axis=axis, num_outputs=2)
    cut = graph.rng.randrange(extent + 1)
    sizes = _longs(graph, [cut, extent - cut])
    return graph.add("Split", [data, sizes], 2, exact=True, axis=axis)


def _slice(graph: Graph) -> Tensor:
    data = graph.pick(_ANY, _RANKED)
    rng = graph.rng
    axes = rng.sample(range(len(data.shape)), rng.randrange(1, len(data.shape) + 1))
    starts, ends, steps = [], [], []
    for axis in axes:
        extent = data.shape[axis]
        step = rng.choice((1, 1, 1, 2, -1, -2, 3))
        low, high = rng.randrange(0, extent // 2 + 1), rng.randrange(extent // 2, extent + 2)
        starts.append(low if step > 0 else rng.choice((high, -1)))
        ends.append(high if step > 0 else rng.choice((low, -(2**31))))
        steps.append(step)
    extra = [_longs(graph, v) for v in (starts, ends, axes, steps)]
    return graph.add("Slice", [data, *extra], exact=True)


def _tile(graph: Graph) -> Tensor:
    data = graph.pick(_ANY)
    repeats = [graph.rng.choice((1, 1, 2, 3)) for _ in data.shape]
    return graph.add("Tile", [data, _longs(graph, repeats)], exact=True)


def _expand(graph: Graph) -> Tensor:
    data = graph.pick(_ANY, (0, 1, 2, 3))
    shape = [e if e != 1 else graph.rng.choice((1, 2, 5)) for e in data.shape]
    shape = [graph.rng.choice((1, 2, 3))] * graph.rng.choice((0, 1)) + shape
    return graph.add("Expand", [data, _longs(graph, shape)], exact=True)


def _pad(graph: Graph) -> Tensor:
    mode = graph.rng.choice(("constant", "constant", "reflect", "edge", "wrap"))
    data = graph.pick(("float32", "float64", "int32", "int64"), (1, 2, 3, 4), some=True)
    least = min(data.shape)
    bound = 3 if mode in ("constant", "edge") else max(1, min(3, least))
    low = -1 if mode == "constant" and least > 3 else 0
    pads = [graph.rng.randrange(low, bound) for _ in range(2 * len(data.shape))]
    kind = float if data.dtype.startswith("float") else int
    value = [graph.constant(data.dtype, kind(2))] if graph.rng.random() < 0.5 else []
    return graph.add("Pad", [data, _longs(graph, pads), *value], exact=True, mode=mode)


def _gather(graph: Graph) -> Tensor:
    data = graph.pick(_ANY, _RANKED, some=True)
    axis = _axis(graph, data)
    extent = data.shape[axis]
    shape = tuple(graph.rng.choice((1, 2, 3)) for _ in range(graph.rng.choice((0, 1, 1, 2))))
    chosen = [graph.rng.randrange(-extent, extent) for _ in range(prod(shape))]
    return graph.add(
        "Gather", [data, _longs(graph, np.reshape(chosen, shape))], exact=True, axis=axis
    )


def _gather_elements(graph: Graph) -> Tensor:
    data = graph.pick(("float32", "int32", "int64"), _RANKED, some=True)
    axis = _axis(graph, data)
    shape = [graph.rng.randrange(1, e + 1) for e in data.shape]
    extent = data.shape[axis]
    chosen = [graph.rng.randrange(-extent, extent) for _ in range(prod(shape))]
    indices = _longs(graph, np.reshape(chosen, shape))
    return graph.add("GatherElements", [data, indices], exact=True, axis=axis)


def _places(graph: Graph, data: Tensor, count: int) -> Any:
    """Distinct places along the first two axes."""
    depth = min(2, len(data.shape))
    room = prod(data.shape[:depth])
    chosen = graph.rng.sample(range(room), min(count, room))
    return np.stack(np.unravel_index(chosen, data.shape[:depth]), axis=-1)


def _gather_nd(graph: Graph) -> Tensor:
    data = graph.pick(("float32", "int32", "int64"), _RANKED, some=True)
    return graph.add("GatherND", [data, _longs(graph, _places(graph, data, 4))], exact=True)


def _scatter_nd(graph: Graph) -> Tensor:
    data = graph.pick(("float32",), _RANKED, some=True)
    places = _places(graph, data, 3)
    shape = [len(places), *data.shape[places.shape[1] :]]
    return graph.add("ScatterND", [data, _longs(graph, places), graph.weights(shape)], exact=True)


def _scatter_elements(graph: Graph) -> Tensor:
    data = graph.pick(("float32",), _RANKED, some=True)
    axis = _axis(graph, data)
    extent = data.shape[axis]
    shape = [min(2, e) for e in data.shape]
    order = graph.rng.sample(range(extent), min(2, extent))
    places = np.zeros(shape, np.int64) + np.reshape(
        order, [-1 if d == axis % len(shape) else 1 for d in range(len(shape))]
    )
    inputs = [data, _longs(graph, places), graph.weights(shape)]
    return graph.add("ScatterElements", inputs, exact=True, axis=axis)


def _trilu(graph: Graph) -> Tensor:
    data = graph.pick(("float32", "int64", "bool"), (2, 3, 4))
    shift = [_longs(graph, graph.rng.randrange(-3, 4))] if graph.rng.random() < 0.7 else []
    return graph.add("Trilu", [data, *shift], exact=True, upper=graph.rng.randrange(2))


def _blocks(operator: str, graph: Graph) -> Tensor:
    size = graph.rng.choice((1, 2, 3))
    n, c, h, w = (graph.rng.choice((1, 2, 3, 5)) for _ in range(4))
    if operator == "DepthToSpace":
        data = graph.new_input("float32", [n, c * size * size, h, w])
        mode = graph.rng.choice(("DCR", "CRD"))
        return graph.add(operator, [data], exact=True, blocksize=size, mode=mode)
    data = graph.new_input("float32", [n, c, h * size, w * size])
    return graph.add(operator, [data], exact=True, blocksize=size)


def _reverse(graph: Graph) -> Tensor:
    data = graph.pick(("float32", "int64"), (2, 3), some=True)
    batch = graph.rng.randrange(2)
    lengths = [graph.rng.randrange(1, data.shape[1 - batch] + 1) for _ in range(data.shape[batch])]
    axes: dict[str, Any] = {"batch_axis": batch, "time_axis": 1 - batch}
    return graph.add("ReverseSequence", [data, _longs(graph, lengths)], exact=True, **axes)


def _crop(graph: Graph) -> Tensor:
    data = graph.pick(("float32", "int32"), _RANKED, some=True)
    shape = [graph.rng.choice((1, 2, 4, 7, 12)) for _ in data.shape]
    return graph.add("CenterCropPad", [data, _longs(graph, shape)], exact=True)


def _one_hot(graph: Graph) -> Tensor:
    data = graph.pick(("int64", "int32"), (1, 2, 3))
    depth, values = _longs(graph, graph.rng.choice((1, 3, 6))), graph.weights([2])
    return graph.add("OneHot", [data, depth, values], exact=True, axis=_axis(graph, data, 1))


def _top_k(graph: Graph) -> Tensor:
    data = graph.pick(("float32", "int64"), _RANKED, exact=True, some=True)
    axis = _axis(graph, data)
    count = _longs(graph, [graph.rng.randrange(1, data.shape[axis] + 1)])
    largest = graph.rng.randrange(2)
    return graph.add("TopK", [data, count], 2, exact=True, axis=axis, largest=largest)


def _shape(graph: Graph) -> Tensor:
    data = graph.pick(_ANY)
    return graph.add(graph.rng.choice(("Shape", "Size")), [data])


def _filled(graph: Graph) -> Tensor:
    shape = _longs(graph, [graph.rng.choice((1, 2, 3)) for _ in range(2)])
    return graph.add("ConstantOfShape", [shape], exact=True)


def _eye(graph: Graph) -> Tensor:
    data = graph.pick(("float32", "int64"), (2,))
    return graph.add("EyeLike", [data], exact=True, k=graph.rng.randrange(-2, 3))


def _range(graph: Graph) -> Tensor:
    rng = graph.rng
    bounds = [rng.randrange(-3, 3), rng.randrange(3, 12), rng.choice((1, 2, 3))]
    return graph.add("Range", [_longs(graph, v) for v in bounds])


_Adder = Callable[[Graph], Any]
MOVEMENT: Final[Mapping[str, _Adder]] = {
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Tile": _tile,
    "Expand": _expand,
    "Pad": _pad,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "ScatterND": _scatter_nd,
    "ScatterElements": _scatter_elements,
    "Trilu": _trilu,
    "DepthToSpace": partial(_blocks, "DepthToSpace"),
    "SpaceToDepth": partial(_blocks, "SpaceToDepth"),
    "ReverseSequence": _reverse,
    "CenterCropPad": _crop,
    "OneHot": _one_hot,
    "TopK": _top_k,
    "Shape": _shape,
    "ConstantOfShape": _filled,
    "EyeLike": _eye,
    "Range": _range,
}
