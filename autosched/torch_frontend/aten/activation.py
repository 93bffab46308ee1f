"""Converters of activation functions.

Where ONNX has a function, the result is what an export to ONNX becomes: tasks are equal then.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from autosched.graph.ops.activation import Activation, ActivationFunction
from autosched.graph.ops.elementwise import BinaryOp, LeakyRelu, UnaryOp, Where
from autosched.torch_frontend.aten.call import AtenCall, Converter


def _activation(function: ActivationFunction, parameters: tuple[float, ...], call: AtenCall) -> str:
    numbers = tuple(map(call.stored, parameters))
    return call.add(Activation(function, numbers), call.value("self"))


def _gelu(call: AtenCall) -> str:
    by_tanh = call["approximate"] == "tanh"
    return call.add(Activation("gelu_tanh" if by_tanh else "gelu"), call.value("self"))


def _silu(call: AtenCall) -> str:
    data = call.value("self")
    return call.add(BinaryOp("mul"), data, call.add(UnaryOp("sigmoid"), data))


def _leaky_relu(call: AtenCall) -> str:
    return call.add(LeakyRelu(call.stored(call["negative_slope"])), call.value("self"))


def _prelu(call: AtenCall) -> str:
    """With slopes that broadcast."""
    return call.add(BinaryOp("prelu"), call.value("self"), call.value("weight"))


def _elu(call: AtenCall) -> str:
    """ELU; with a scale it is SELU."""
    call.require(call["input_scale"] == 1, "an ELU of a scaled input")
    if call["scale"] == 1:
        return _activation("elu", (call["alpha"],), call)
    return _activation("selu", (call["alpha"], call["scale"]), call)


def _celu(call: AtenCall) -> str:
    return _activation("celu", (call["alpha"],), call)


def _softplus(call: AtenCall) -> str:
    """``log(1 + exp(beta x)) / beta``, and ``x`` itself where ``beta x`` is above a threshold."""
    data, soft = call.value("self"), Activation("softplus")
    above = call.number(call["threshold"], call.dtype)
    if call["beta"] == 1:
        return call.add(Where(), call.add(BinaryOp("gt"), data, above), data, call.add(soft, data))
    beta = call.number(call["beta"], call.dtype)
    scaled = call.add(BinaryOp("mul"), data, beta)
    value = call.add(BinaryOp("div"), call.add(soft, scaled), beta)
    return call.add(Where(), call.add(BinaryOp("gt"), scaled, above), data, value)


def _log_sigmoid(call: AtenCall) -> tuple[str | None, ...]:
    """``-log(1 + exp(-x))``: ONNX's logarithm of a sigmoid is infinite below -104."""
    opposite = call.add(UnaryOp("neg"), call.value("self"))
    soft = call.add(Activation("softplus"), opposite)
    return call.add(UnaryOp("neg"), soft), None


ACTIVATIONS: Final[Mapping[str, Converter]] = {
    "_prelu_kernel.default": _prelu,
    "celu.default": _celu,
    "elu.default": _elu,
    "gelu.default": _gelu,
    "hardsigmoid.default": partial(_activation, "hard_sigmoid", (1 / 6, 0.5)),
    "hardswish.default": partial(_activation, "hard_swish", ()),
    "leaky_relu.default": _leaky_relu,
    "log_sigmoid_forward.default": _log_sigmoid,
    "mish.default": partial(_activation, "mish", ()),
    "silu.default": _silu,
    "softplus.default": _softplus,
}
