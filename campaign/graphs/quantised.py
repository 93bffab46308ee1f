"""Quantised layers of random graphs: bytes over their whole range, with any zero points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from campaign.graphs.graph import Graph, Tensor

_BYTES: Final = ("uint8", "int8")
_EXTENTS: Final = (1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 31, 32, 33, 37)
_CHANNELS: Final = (1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 32, 33)
# Powers of two, which round nothing, and others.
_SCALES: Final = (0.125, 0.25, 0.0078125, 0.02, 0.01, 0.3)
_CONSTANT: Final = 0.8  # of operands that are constants


def _limits(dtype: str) -> tuple[int, int]:
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _bytes(graph: Graph, dtype: str, shape: list[int], constant: float = _CONSTANT) -> Tensor:
    """A matrix or filters: numbers of the whole range, or all of them an extreme."""
    if graph.rng.random() >= constant:
        return graph.new_input(dtype, shape, whole_range=True)
    low, high = _limits(dtype)
    only = graph.rng.choice((None, None, None, (low,), (high,), (low, high)))
    size = int(np.prod(shape, dtype=np.int64))
    values = [graph.rng.choice(only) if only else graph.rng.randint(low, high) for _ in range(size)]
    return graph.constant(dtype, np.array(values).reshape(shape))


def _zero_point(graph: Graph, dtype: str, shape: list[int]) -> Tensor:
    """One, or one for each slice: an extreme, the middle, none, or any."""
    low, high = _limits(dtype)
    size = int(np.prod(shape, dtype=np.int64))
    kind = graph.rng.randrange(6)
    if kind == 5:
        values = [graph.rng.randint(low, high) for _ in range(size)]
    else:
        values = [(low, high, 0, (low + high + 1) // 2, 3)[kind]] * size
    return graph.constant(dtype, np.array(values).reshape(shape))


def _scale(graph: Graph, shape: list[int]) -> Tensor:
    size = int(np.prod(shape, dtype=np.int64))
    values = np.array([graph.rng.choice(_SCALES) for _ in range(size)])
    return graph.constant("float32", values.reshape(shape))


def _data(graph: Graph, shape: list[int]) -> Tensor:
    """A tensor of bytes in the graph, where its rank is the one wanted, or a new input."""
    found = [t for t in graph.tensors if t.dtype in _BYTES and len(t.shape) == len(shape)]
    found = [t for t in found if min(t.shape) > 0 and min(t.shape[2:], default=3) >= 3]
    if found and graph.rng.random() < 0.5:
        return found[-1]
    return graph.new_input(graph.rng.choice(_BYTES), shape, whole_range=True)


def _matrices(graph: Graph) -> tuple[Tensor, Tensor]:
    rng = graph.rng
    shape = [rng.choice(_EXTENTS) for _ in range(2)]
    data = _data(graph, rng.choice((shape, shape, [rng.choice((1, 2, 3)), *shape])))
    batch = list(data.shape[:-2]) if rng.random() < 0.15 else []
    extents = [data.shape[-1], rng.choice(_EXTENTS)]
    if batch or rng.random() < 0.8:
        return data, _bytes(graph, rng.choice(_BYTES), [*batch, *extents])
    turned = _bytes(graph, rng.choice(_BYTES), extents[::-1])
    return data, graph.add("Transpose", [turned], perm=[1, 0])


def _matmul_integer(graph: Graph) -> Tensor:
    data, weight = _matrices(graph)
    inputs = [data, weight]
    if graph.rng.random() < 0.8:
        inputs.append(_zero_point(graph, data.dtype, []))
        if graph.rng.random() < 0.7:
            shape = graph.rng.choice(([], [weight.shape[-1]])) if len(weight.shape) == 2 else []
            inputs.append(_zero_point(graph, weight.dtype, shape))
    return graph.add("MatMulInteger", inputs)


def _qlinear_matmul(graph: Graph) -> Tensor:
    data, weight = _matrices(graph)
    shape = graph.rng.choice(([], [weight.shape[-1]])) if len(weight.shape) == 2 else []
    inputs = [
        data, _scale(graph, []), _zero_point(graph, data.dtype, []),
        weight, _scale(graph, shape), _zero_point(graph, weight.dtype, shape),
        _scale(graph, []), _zero_point(graph, data.dtype, []),
    ]  # fmt: skip
    return graph.add("QLinearMatMul", inputs)


def _maps(graph: Graph) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Maps, filters and the attributes of a convolution that fits them."""
    rng = graph.rng
    group, rank = rng.choice((1, 1, 1, 2, 3, 8)), rng.choice((1, 2, 2, 2, 3))
    inner, outer = rng.choice(_CHANNELS[: 6 if group > 1 else None]), rng.choice(_CHANNELS)
    if rng.random() < 0.15:
        inner, outer = 1, rng.choice((1, 2))
    spatial = [rng.choice((3, 4, 5, 7, 8, 11)) for _ in range(rank)]
    data = _data(graph, [rng.choice((1, 1, 2, 3)), group * inner, *spatial])
    if data.shape[1] != group * inner:
        group, inner = 1, data.shape[1]
    kernel = [rng.choice((1, 2, 3)) for _ in range(rank)]
    attributes: dict[str, Any] = {"group": group, "kernel_shape": kernel}
    attributes["strides"] = [rng.choice((1, 1, 2, 3)) for _ in kernel]
    if rng.random() < 0.8:
        attributes["pads"] = [rng.randrange(k) for k in (*kernel, *kernel)]
        attributes["dilations"] = [rng.choice((1, 1, 1, 2)) for _ in kernel]
    else:
        attributes["auto_pad"] = rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    filters = _bytes(graph, rng.choice(_BYTES), [group * outer, inner, *kernel])
    return data, filters, attributes


def _conv_integer(graph: Graph) -> Tensor:
    data, filters, attributes = _maps(graph)
    inputs = [data, filters]
    if graph.rng.random() < 0.8:
        inputs.append(_zero_point(graph, data.dtype, []))
        if graph.rng.random() < 0.7:
            inputs.append(_zero_point(graph, filters.dtype, []))
    return graph.add("ConvInteger", inputs, **attributes)


def _qlinear_conv(graph: Graph) -> Tensor:
    data, filters, attributes = _maps(graph)
    shape = graph.rng.choice(([], [filters.shape[0]]))
    inputs = [
        data, _scale(graph, []), _zero_point(graph, data.dtype, []),
        filters, _scale(graph, shape), _zero_point(graph, filters.dtype, shape),
        _scale(graph, []), _zero_point(graph, data.dtype, []),
    ]  # fmt: skip
    if graph.rng.random() < 0.5:
        most = graph.rng.choice((1000, 1 << 20, 1 << 31))
        values = [graph.rng.randrange(-most, most) for _ in range(filters.shape[0])]
        inputs.append(graph.constant("int32", np.array(values)))
    return graph.add("QLinearConv", inputs, **attributes)


def _quantize(graph: Graph) -> Tensor:
    data = graph.pick(("float32",), (1, 2, 3, 4), exact=True, some=True)
    zero = _zero_point(graph, graph.rng.choice(_BYTES), [])
    return graph.add("QuantizeLinear", [data, graph.constant("float32", 0.03125), zero])


def _dequantize(graph: Graph) -> Tensor:
    data = graph.pick(_BYTES, (1, 2, 3, 4), some=True)
    zero = _zero_point(graph, data.dtype, [])
    return graph.add(
        "DequantizeLinear", [data, graph.constant("float32", 0.0625), zero], exact=True
    )


def _dynamic_quantize(graph: Graph) -> Tensor:
    return graph.add("DynamicQuantizeLinear", [graph.pick(("float32",), (1, 2, 3), True, True)], 3)


_Adder = Callable[[Graph], Any]
QUANTISED: Final[Mapping[str, _Adder]] = {
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "MatMulInteger": _matmul_integer,
    "QLinearMatMul": _qlinear_matmul,
    "ConvInteger": _conv_integer,
    "QLinearConv": _qlinear_conv,
}
