"""A PyTorch module from an ONNX model: the same graph and weights, as straight-line code.

Only what the networks of the zoo need, in the forms that PyTorch is fastest with; torch.fx writes
the ``forward`` function, so nothing is interpreted at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper
from torch.fx.subgraph_rewriter import replace_pattern_with_filters

Attributes = dict[str, Any]
_ROOT_2 = float(np.float32(2.0**0.5))  # as the model has it


def module_from_onnx(model: bytes) -> tuple[Any, list[str], list[str]]:
    """``(module in eval mode, input names, output names)``.

    Raises:
        ValueError: the model has an operator that is not listed below.
    """
    graph = onnx.load_from_string(model).graph
    root = torch.nn.Module()
    fx = torch.fx.Graph()
    values: dict[str, Any] = {}
    weights = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in graph.initializer}
    inputs = [v.name for v in graph.input if v.name not in weights]
    for index, name in enumerate(inputs):
        values[name] = fx.placeholder(f"input_{index}")
    gathered = {node.input[1] for node in graph.node if node.op_type == "Gather"}
    for index, (name, tensor) in enumerate(weights.items()):
        if tensor.dim() and (tensor.dtype == torch.float32 or name in gathered):
            attribute = f"weight_{index}"
            root.register_parameter(attribute, torch.nn.Parameter(tensor, requires_grad=False))
            values[name] = fx.get_attr(attribute)
        else:  # a shape, an axis, a bound: numbers in the code
            values[name] = tensor.tolist()
    for node in graph.node:
        convert = _CONVERTERS.get(node.op_type)
        if convert is None:
            raise ValueError(f"no PyTorch form of the ONNX operator {node.op_type}")
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        values[node.output[0]] = convert(
            fx, [values[name] if name else None for name in node.input], attributes
        )
    outputs = [v.name for v in graph.output]
    fx.output(tuple(values[name] for name in outputs))
    module = torch.fx.GraphModule(root, fx).eval()
    torch.fx.replace_pattern(module, _composed_gelu, _gelu)
    replace_pattern_with_filters(module, _product_and_bias, _linear, [_of_weights])
    return module, inputs, outputs


def _composed_gelu(x: Any) -> Any:
    return torch.mul(torch.mul(x, torch.add(torch.erf(torch.div(x, _ROOT_2)), 1.0)), 0.5)


def _gelu(x: Any) -> Any:
    return F.gelu(x)


def _product_and_bias(x: Any, weight: Any, bias: Any) -> Any:
    return torch.add(torch.matmul(x, weight), bias)


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    return F.linear(x, torch.t(weight), bias)


def _of_weights(match: Any, original: Any, pattern: Any) -> bool:
    """Whether a product and its bias are those of a linear layer."""
    return all(node.op == "get_attr" for node in match.placeholder_nodes[1:])


_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def _per_dimension(attributes: Attributes, name: str, rank: int, default: int) -> list[int]:
    return list(attributes.get(name, [default] * rank))


def _symmetric_padding(attributes: Attributes, rank: int) -> tuple[list[int], list[int]]:
    """Padding that both sides have, and what is left in the order of ``F.pad`` (last first)."""
    pads = _per_dimension(attributes, "pads", 2 * rank, 0)
    low, high = pads[:rank], pads[rank:]
    if low == high:
        return low, []
    return [0] * rank, [pad for sides in zip(low[::-1], high[::-1], strict=True) for pad in sides]


def _conv(fx: Any, args: list[Any], attributes: Attributes) -> Any:
    rank = len(attributes["strides"])
    padding, rest = _symmetric_padding(attributes, rank)
    data = fx.call_function(F.pad, (args[0], rest)) if rest else args[0]
    bias = args[2] if len(args) > 2 else None
    stride = _per_dimension(attributes, "strides", rank, 1)
    dilation = _per_dimension(attributes, "dilations", rank, 1)
    return fx.call_function(
        _CONVOLUTIONS[rank],
        (data, args[1], bias, stride, padding, dilation, attributes.get("group", 1)),
    )


def _conv_transpose(fx: Any, args: list[Any], attributes: Attributes) -> Any:
    rank = len(attributes["strides"])
    padding, rest = _symmetric_padding(attributes, rank)
    if rest:
        raise ValueError(f"a transposed convolution with pads {attributes['pads']} has no form")
    bias = args[2] if len(args) > 2 else None
    stride = _per_dimension(attributes, "strides", rank, 1)
    output = _per_dimension(attributes, "output_padding", rank, 0)
    dilation = _per_dimension(attributes, "dilations", rank, 1)
    return fx.call_function(
        _TRANSPOSED[rank],
        (args[0], args[1], bias, stride, padding, output, attributes.get("group", 1), dilation),
    )


def _batch_norm(fx: Any, args: list[Any], attributes: Attributes) -> Any:
    data, scale, bias, mean, variance = args
    return fx.call_function(
        F.batch_norm,
        (data, mean, variance, scale, bias, False, 0.0, attributes.get("epsilon", 1e-5)),
    )


def _windows(attributes: Attributes) -> tuple[list[int], list[int], list[int]]:
    """Kernel, stride and padding of a pooling, as torch takes them."""
    pads = attributes.get("pads", [0, 0, 0, 0])
    steps = list(attributes.get("strides", [1, 1]))
    return list(attributes["kernel_shape"]), steps, list(pads[:2])


def _max_pool(fx: Any, args: list[Any], attributes: Attributes) -> Any:
    ceiling = bool(attributes.get("ceil_mode", 0))
    return fx.call_function(F.max_pool2d, (args[0], *_windows(attributes), 1, ceiling))


def _average_pool(fx: Any, args: list[Any], attributes: Attributes) -> Any:
    flags = (bool(attributes.get(name, 0)) for name in ("ceil_mode", "count_include_pad"))
    return fx.call_function(F.avg_pool2d, (args[0], *_windows(attributes), *flags))


def _global_average_pool(fx: Any, args: list[Any], attributes: Attributes) -> Any:
    return fx.call_function(_channel_means, (args[0],))


def _channel_means(data: Any) -> Any:
    if data.dim() == 4:
        return F.adaptive_avg_pool2d(data, 1)
    return F.adaptive_avg_pool3d(data, 1)


def _gemm(fx: Any, args: list[Any], attributes: Attributes) -> Any:
    if attributes.get("transA", 0) or attributes.get("alpha", 1.0) != 1.0:
        raise ValueError("a Gemm with transA or alpha has no form as a linear layer")
    weight = args[1]
    if not attributes.get("transB", 0):
        weight = fx.call_function(torch.t, (weight,))
    return fx.call_function(F.linear, (args[0], weight, *args[2:]))


def _transpose(fx: Any, args: list[Any], attributes: Attributes) -> Any:
    order = list(attributes["perm"])
    if order != [0, 2, 3, 1]:
        return fx.call_function(torch.permute, (args[0], order))
    # In two views: Inductor's attention pattern takes the keys of all heads, then transposes them.
    heads = fx.call_function(torch.permute, (args[0], [0, 2, 1, 3]))
    return fx.call_function(torch.transpose, (heads, 2, 3))


def _gather(fx: Any, args: list[Any], attributes: Attributes) -> Any:
    data, indices = args
    axis = attributes.get("axis", 0)
    if isinstance(indices, int):
        return fx.call_function(torch.select, (data, axis, indices))
    if axis:
        raise ValueError("only a gather of rows, or of one index, has a form")
    return fx.call_function(F.embedding, (indices, data))


def _layer_norm(fx: Any, args: list[Any], attributes: Attributes) -> Any:
    if attributes.get("axis", -1) != -1:
        raise ValueError("only a layer norm over the last dimension has a form")
    data, weight, bias = args
    shape = fx.call_function(getattr, (weight, "shape"))
    return fx.call_function(
        F.layer_norm, (data, shape, weight, bias, attributes.get("epsilon", 1e-5))
    )


def _clip(fx: Any, args: list[Any], attributes: Attributes) -> Any:
    low, high = (*args[1:], None, None)[:2]
    return fx.call_function(torch.clamp, (args[0], low, high))


def _function(function: Callable[..., Any]) -> Callable[[Any, list[Any], Attributes], Any]:
    return lambda fx, args, attributes: fx.call_function(function, tuple(args))


_CONVERTERS: dict[str, Callable[[Any, list[Any], Attributes], Any]] = {
    "Add": _function(torch.add),
    "AveragePool": _average_pool,
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    "Concat": lambda fx, args, a: fx.call_function(torch.cat, (args, a["axis"])),
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Div": _function(torch.div),
    "Erf": _function(torch.erf),
    "Flatten": lambda fx, args, a: fx.call_function(torch.flatten, (args[0], a.get("axis", 1))),
    "Gather": _gather,
    "Gelu": _function(F.gelu),
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average_pool,
    "Identity": lambda fx, args, attributes: args[0],
    "LayerNormalization": _layer_norm,
    "MatMul": _function(torch.matmul),
    "MaxPool": _max_pool,
    "Mul": _function(torch.mul),
    "Relu": _function(torch.relu),
    "Reshape": _function(torch.reshape),
    "Sigmoid": _function(torch.sigmoid),
    "Softmax": lambda fx, args, a: fx.call_function(torch.softmax, (args[0], a.get("axis", -1))),
    "Sub": _function(torch.sub),
    "Tanh": _function(torch.tanh),
    "Transpose": _transpose,
}
