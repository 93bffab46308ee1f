"""Layers of networks in random graphs: products, convolutions, pools, norms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from campaign.graphs.graph import Graph, Rejected, Tensor

# Convolutions with channels enough for other algorithms.
_WIDE: Final = 0.25
_SIZES: Final = (1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17)


def _maybe(graph: Graph, shape: list[int], dtype: str = "float32") -> list[Tensor]:
    return [graph.weights(shape, dtype)] if graph.rng.random() < 0.6 else []


def _matmul(graph: Graph) -> Tensor:
    data = graph.pick(("float32", "float32", "float64"), (1, 2, 3, 4), some=True)
    columns, inner = graph.rng.choice(_SIZES), data.shape[-1]
    batch = list(data.shape[:-2]) if graph.rng.random() < 0.3 else []
    shape = [*batch, inner, columns]
    constant = graph.rng.random() < 0.6
    other = graph.weights(shape, data.dtype) if constant else graph.new_input(data.dtype, shape)
    return graph.add("MatMul", [data, other])


def _gemm(graph: Graph) -> Tensor:
    data = graph.pick(("float32",), (2,), some=True)
    flip_a, flip_b = graph.rng.randrange(2), graph.rng.randrange(2)
    rows, inner = (data.shape[1], data.shape[0]) if flip_a else data.shape
    columns = graph.rng.choice(_SIZES)
    weight = graph.weights([columns, inner] if flip_b else [inner, columns])
    bias = graph.rng.choice(([columns], [rows, 1], [1, columns], [rows, columns], []))
    attributes: dict[str, Any] = {
        "alpha": graph.rng.uniform(0.5, 2),
        "beta": graph.rng.uniform(0.5, 2),
    }
    return graph.add("Gemm", [data, weight, *_maybe(graph, bias)], transA=flip_a, transB=flip_b,
                     **attributes)  # fmt: skip


def _einsum(graph: Graph) -> Tensor:
    a, b, c = (graph.rng.choice((1, 2, 3, 5, 8)) for _ in range(3))
    equation, first, second = graph.rng.choice((
        ("ij,jk->ik", [a, b], [b, c]), ("ij,ij->i", [a, b], [a, b]), ("ij,kj->ki", [a, b], [c, b]),
        ("bij,bjk->bik", [2, a, b], [2, b, c]), ("i,j->ij", [a], [b]),
        ("ijk,k->ij", [a, b, c], [c]),
    ))  # fmt: skip
    inputs = [graph.new_input("float32", first), graph.new_input("float32", second)]
    return graph.add("Einsum", inputs, equation=equation)


def _window(graph: Graph, rank: int) -> tuple[dict[str, Any], list[int], list[int]]:
    """(attributes, kernel, spatial shape that is long enough)."""
    rng = graph.rng
    kernel = [rng.choice((1, 2, 3)) for _ in range(rank)]
    strides = [rng.choice((1, 1, 2, 3)) for _ in range(rank)]
    pads = [rng.randrange(k) for k in kernel] + [rng.randrange(k) for k in kernel]
    shape = [rng.choice((3, 4, 5, 7, 8, 11, 13)) for _ in range(rank)]
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides}
    if rng.random() < 0.75:
        attributes["pads"] = pads
    else:
        attributes["auto_pad"] = rng.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
    return attributes, kernel, shape


def _data(graph: Graph, channels: int, spatial: list[int], dtype: str = "float32") -> Tensor:
    """A tensor with these channels, where there is one, or a new input."""
    rank = len(spatial) + 2
    found = [
        t
        for t in graph.tensors
        if t.dtype == dtype
        and len(t.shape) == rank
        and t.shape[1] == channels
        and min(t.shape) > 0
        and all(e >= 3 for e in t.shape[2:])
    ]
    if found:
        return found[-1]
    return graph.new_input(dtype, [graph.rng.choice((1, 1, 2)), channels, *spatial])


def _conv(graph: Graph) -> Tensor:
    rng = graph.rng
    attributes, kernel, spatial = _window(graph, rng.choice((1, 2, 2, 2, 3)))
    group = rng.choice((1, 1, 1, 2, 3))
    inner, outer = rng.choice((1, 2, 3, 5, 8)), rng.choice((1, 2, 3, 5, 8, 16))
    if rng.random() < _WIDE:
        group, inner, outer = 1, rng.choice((16, 17, 24)), rng.choice((16, 24, 33))
    data = _data(graph, group * inner, spatial)
    weight = graph.weights([group * outer, inner, *kernel])
    if "pads" in attributes and rng.random() < 0.3:
        attributes["dilations"] = [rng.choice((1, 2)) for _ in kernel]
    bias = _maybe(graph, [group * outer])
    return graph.add("Conv", [data, weight, *bias], group=group, **attributes)


def _conv_transpose(graph: Graph) -> Tensor:
    rng = graph.rng
    attributes, kernel, spatial = _window(graph, rng.choice((1, 2, 2)))
    attributes.pop("auto_pad", None)
    group, inner, outer = rng.choice((1, 1, 2)), rng.choice((1, 3, 5)), rng.choice((1, 2, 5))
    if rng.random() < _WIDE:  # phases of several taps, of different numbers of them where 6 / 4
        group, inner, outer = 1, rng.choice((16, 17)), rng.choice((16, 24))
        kernel, stride = [rng.choice((2, 4, 6))] * len(spatial), rng.choice((1, 2, 4))
        attributes = {"kernel_shape": kernel, "strides": [stride] * len(spatial)}
    data = _data(graph, group * inner, spatial)
    weight = graph.weights([group * inner, outer, *kernel])
    if rng.random() < 0.3:
        attributes["output_padding"] = [s - 1 for s in attributes["strides"]]
    bias = _maybe(graph, [group * outer])
    return graph.add("ConvTranspose", [data, weight, *bias], group=group, **attributes)


def _pool(operator: str, graph: Graph) -> Tensor:
    rng = graph.rng
    attributes, _, spatial = _window(graph, rng.choice((1, 2, 2, 3)))
    if rng.random() < 0.3 and "pads" in attributes:
        attributes["ceil_mode"] = 1
    if operator == "AveragePool":
        attributes["count_include_pad"] = rng.randrange(2)
    if operator == "LpPool":
        attributes["p"] = rng.choice((1, 2, 3))
        attributes.pop("ceil_mode", None)
    data = _data(graph, rng.choice((1, 3, 5)), spatial)
    return graph.add(operator, [data], exact=operator == "MaxPool", **attributes)


def _global_pool(operator: str, graph: Graph) -> Tensor:
    data = graph.pick(("float32",), (3, 4), some=True)
    return graph.add(operator, [data], exact=operator == "GlobalMaxPool")


def _batch_norm(graph: Graph) -> Tensor:
    data = graph.pick(("float32",), (2, 3, 4), some=True)
    shape = [data.shape[1]]
    variance = graph.constant(
        "float32", np.array([graph.rng.uniform(0.5, 2) for _ in range(shape[0])])
    )
    inputs = [data, *(graph.weights(shape) for _ in range(3)), variance]
    return graph.add("BatchNormalization", inputs, epsilon=graph.rng.choice((1e-5, 1e-3)))


def _instance_norm(graph: Graph) -> Tensor:
    data = graph.pick(("float32",), (3, 4), exact=True, some=True)
    shape = [data.shape[1]]
    return graph.add("InstanceNormalization", [data, graph.weights(shape), graph.weights(shape)],
                     epsilon=1e-2)  # fmt: skip


def _layer_norm(graph: Graph) -> Tensor:
    data = graph.pick(("float32",), (1, 2, 3, 4), exact=True, some=True)
    axis = graph.rng.randrange(-len(data.shape), len(data.shape))
    shape = list(data.shape[axis:])
    inputs = [data, graph.weights(shape), *_maybe(graph, shape)]
    return graph.add("LayerNormalization", inputs, axis=axis, epsilon=1e-2)


def _lrn(graph: Graph) -> Tensor:
    data = graph.pick(("float32",), (4,), some=True)
    return graph.add("LRN", [data], size=graph.rng.choice((1, 3, 5)), alpha=0.1, beta=0.75)


def _resize(graph: Graph) -> Tensor:
    rng = graph.rng
    data = _data(graph, rng.choice((1, 3)), [5, 7])
    mode = rng.choice(("nearest", "linear", "cubic"))
    attributes: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": rng.choice(("half_pixel", "asymmetric", "align_corners")),
    }
    if mode == "nearest":
        attributes["nearest_mode"] = rng.choice(("floor", "ceil", "round_prefer_floor"))
    if rng.random() < 0.5:
        scales = np.array([1, 1, rng.choice((0.5, 2, 3)), rng.choice((1, 2, 1.5))])
        return graph.add("Resize", [data, None, graph.constant("float32", scales)], **attributes)
    sizes = np.array([*data.shape[:2], rng.choice((3, 9, 10)), rng.choice((4, 14))])
    return graph.add("Resize", [data, None, None, graph.constant("int64", sizes)], **attributes)


def _grid_sample(graph: Graph) -> Tensor:
    data = graph.new_input("float32", [1, 2, 5, 7])
    grid = graph.weights([1, 3, 4, 2])
    mode = graph.rng.choice(("linear", "nearest"))
    padding = graph.rng.choice(("zeros", "border", "reflection"))
    return graph.add("GridSample", [data, grid], mode=mode, padding_mode=padding)


def _recurrent(operator: str, graph: Graph) -> Tensor:
    rng = graph.rng
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator]
    direction = rng.choice(("forward", "reverse", "bidirectional"))
    ways = 2 if direction == "bidirectional" else 1
    steps, batch, size, hidden = (rng.choice((1, 2, 3, 5)) for _ in range(4))
    data = graph.new_input("float32", [steps, batch, size])
    weights = [
        graph.weights([ways, gates * hidden, size]),
        graph.weights([ways, gates * hidden, hidden]),
        *_maybe(graph, [ways, 2 * gates * hidden]),
    ]
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    if operator == "GRU":
        attributes["linear_before_reset"] = rng.randrange(2)
    return graph.add(operator, [data, *weights], 2, **attributes)


def _determinant(graph: Graph) -> Tensor:
    size = graph.rng.choice((1, 2, 3))
    return graph.add("Det", [graph.new_input("float32", [graph.rng.choice((1, 4)), size, size])])


def _col2im(graph: Graph) -> Tensor:
    kernel = [2, graph.rng.choice((1, 2))]
    image = [5, 6]
    blocks = (image[0] - kernel[0] + 1) * (image[1] - kernel[1] + 1)
    if blocks < 1:
        raise Rejected("no block")
    data = graph.new_input("float32", [1, 2 * kernel[0] * kernel[1], blocks])
    sizes = [graph.constant("int64", np.array(v)) for v in (image, kernel)]
    return graph.add("Col2Im", [data, *sizes])


_Adder = Callable[[Graph], Any]
LAYERS: Final[Mapping[str, _Adder]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Einsum": _einsum,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    **{name: partial(_pool, name) for name in ("MaxPool", "AveragePool", "LpPool")},
    **{
        name: partial(_global_pool, name)
        for name in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
    },
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": _instance_norm,
    "LayerNormalization": _layer_norm,
    "LRN": _lrn,
    "Resize": _resize,
    "GridSample": _grid_sample,
    **{name: partial(_recurrent, name) for name in ("LSTM", "GRU", "RNN")},
    "Det": _determinant,
    "Col2Im": _col2im,
}
