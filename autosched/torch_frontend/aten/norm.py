"""Converters of normalisation, softmax and reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, Final, Literal

from autosched.graph.ops.base import normalize_axis
from autosched.graph.ops.elementwise import BinaryOp, CastOp
from autosched.graph.ops.norm import BatchNorm, Normalize
from autosched.graph.ops.reduce import (
    ArgReduce,
    Cumulative,
    ReduceFunction,
    ReduceOp,
    reduced_shape,
)
from autosched.graph.ops.shape import Reshape
from autosched.graph.ops.softmax import Softmax
from autosched.torch_frontend.aten.call import AtenCall, Converter
from sketch.lang.dtypes import STORAGE_FLOATS, is_float
from sketch.operators.scan import ScanFunction

_Extreme = Literal["max", "min"]


def _batch_norm(call: AtenCall) -> tuple[str | None, ...]:
    """By stored statistics."""
    parameters = [call[name] for name in ("weight", "bias", "running_mean", "running_var")]
    call.require(all(value is not None for value in parameters), "a norm without weights")
    data, names = _data(call), call.values("weight", "bias", "running_mean", "running_var")
    return _rounded(call, call.add(BatchNorm(call.stored(call["eps"])), data, *names)), None, None


def _any_batch_norm(call: AtenCall) -> tuple[str | None, ...]:
    """By the statistics of the batch or by stored ones."""
    if not call["training"]:
        return _batch_norm(call)
    call.require(call["running_mean"] is None, "statistics that it changes")
    return _instance_norm(call)


def _layer_norm(call: AtenCall) -> tuple[str | None, ...]:
    rank = len(call.shape("input"))
    axes = tuple(range(rank - len(call["normalized_shape"]), rank))
    value = call.add(Normalize(axes, call.stored(call["eps"])), _data(call))
    return _affine(call, value, call.values("weight"), call.values("bias")), None, None


def _group_norm(call: AtenCall) -> tuple[str | None, ...]:
    """Statistics of groups of channels, a scale and a shift for each channel."""
    shape = call.shape("input")
    split = (shape[0], call["group"], prod(shape[1:]) // call["group"])
    flat = call.add(Reshape(split), _data(call))
    value = call.add(Normalize((2,), call.stored(call["eps"])), flat)
    whole = call.add(Reshape(shape), value)
    parameters = call.values("weight"), call.values("bias")
    return _affine(call, whole, *_of_channels(call, len(shape), parameters)), None, None


def _instance_norm(call: AtenCall) -> tuple[str | None, ...]:
    """Statistics of the batch, in each channel; exported with a scale and a shift in any case."""
    call.require(call["training"], "a norm without statistics")
    rank = len(call.shape("input"))
    axes = (0, *range(2, rank))
    value = call.add(Normalize(axes, call.stored(call["eps"])), _data(call))
    parameters = call.factor("weight"), call.bias("bias")
    return _affine(call, value, *_of_channels(call, rank, parameters)), None, None


def _of_channels(call: AtenCall, rank: int, parameters: Sequence[Sequence[str]]) -> list[list[str]]:
    """Weight and bias as ``[c, 1, ...]``; an empty list for one that is not there."""
    views: list[list[str]] = []
    for names in parameters:
        shapes = [(call.type_of(name).size, *(1,) * (rank - 2)) for name in names]
        pairs = zip(names, shapes, strict=True)
        views.append([call.add(Reshape(shape), name) for name, shape in pairs])
    return views


def _affine(call: AtenCall, value: str, weight: Sequence[str], bias: Sequence[str]) -> str:
    for name in weight:
        value = call.add(BinaryOp("mul"), value, name)
    for name in bias:
        value = call.add(BinaryOp("add"), value, name)
    return _rounded(call, value)


def _data(call: AtenCall) -> str:
    """What is normalised, in the dtype of the parameters: 16-bit floats may have wider ones."""
    parameters = (call.given.get(role) for role in ("weight", "bias", "running_mean"))
    wide = (str(each.dtype).removeprefix("torch.") for each in parameters if each is not None)
    return call.operand("input", next(wide, call.dtype))


def _rounded(call: AtenCall, value: str) -> str:
    """In the dtype of the result."""
    wide = call.type_of(value).dtype != call.dtype
    return call.add(CastOp(call.dtype), value) if wide else value


def _softmax(log: bool, call: AtenCall) -> str:
    shape = call.shape("self")
    call.require(bool(shape) and not call["half_to_float"], "softmax of a number")
    data = call.operand("self", call.dtype)
    return call.add(Softmax(normalize_axis(call["dim"], len(shape)), log), data)


def _axes(call: AtenCall, given: Any) -> tuple[int, ...]:
    """Dimensions, counted from the front and in order; all of them if none is given."""
    rank = len(call.shape("self"))
    call.require(rank > 0, "a reduction of a number")
    if given is None or given == []:
        return tuple(range(rank))
    listed = given if isinstance(given, list | tuple) else [given]
    return tuple(sorted({normalize_axis(axis, rank) for axis in listed}))


def _reduce(function: ReduceFunction, call: AtenCall) -> str:
    """In the dtype of the result: sums of integers are int64."""
    axes = _axes(call, call.given.get("dim"))
    op = ReduceOp(function, axes, call.given.get("keepdim", False))
    return call.add(op, call.operand("self", call.dtype))


def _whole_extreme(function: _Extreme, call: AtenCall) -> str:
    return call.add(ReduceOp(function, _axes(call, None)), call.value("self"))


def _vector_norm(call: AtenCall) -> str:
    """The sum of absolute values, or the root of the sum of squares."""
    functions: dict[float, ReduceFunction] = {1: "l1", 2: "l2"}
    call.require(call["ord"] in functions, "another norm")
    op = ReduceOp(functions[call["ord"]], _axes(call, call["dim"]), call["keepdim"])
    return call.add(op, call.operand("self", call.dtype))


def _variance(call: AtenCall) -> str:
    """The mean of squares of differences, over one element less by default."""
    axes, keep = _axes(call, call["dim"]), call["keepdim"]
    count = prod(call.shape("self")[axis] for axis in axes)
    left = count - (1 if call["correction"] is None else call["correction"])
    call.require(left > 0, "a variance of too few elements")
    data, dtype = call.value("self"), call.dtype
    if dtype in STORAGE_FLOATS:  # squares may be too large for them
        dtype = "float32"
        data = call.add(CastOp(dtype), data)
    difference = call.add(BinaryOp("sub"), data, call.add(ReduceOp("mean", axes, True), data))
    square = call.add(BinaryOp("mul"), difference, difference)
    found = call.add(ReduceOp("mean", axes, keep), square)
    if left != count:
        found = call.add(BinaryOp("mul"), found, call.number(count / left, dtype))
    return found if dtype == call.dtype else call.add(CastOp(call.dtype), found)


def _variance_and_mean(call: AtenCall) -> tuple[str, str]:
    mean = ReduceOp("mean", _axes(call, call["dim"]), call["keepdim"])
    return _variance(call), call.add(mean, call.value("self"))


def _truth(function: _Extreme, call: AtenCall) -> str:
    """Whether one or all of some numbers are other than 0; that of bytes is a byte."""
    found, axes = call.operand("self", "bool"), call.given.get("dim")
    if axes != []:  # torch takes no dimensions for none here, and for all in other reductions
        op = ReduceOp(function, _axes(call, axes), call.given.get("keepdim", False))
        found = call.add(op, found)
    return found if call.dtype == "bool" else call.add(CastOp(call.dtype), found)


def _running(function: ScanFunction, call: AtenCall) -> str:
    call.require(bool(call.shape("self")), "a running sum or product of a number")
    axis = normalize_axis(call["dim"], len(call.shape("self")))
    return call.add(Cumulative(function, axis), call.operand("self", call.dtype))


def _extreme(function: _Extreme, call: AtenCall) -> tuple[str, ...]:
    """The extreme along one dimension, and where it is."""
    axes, keep = _axes(call, call["dim"]), call["keepdim"]
    return call.add(ReduceOp(function, axes, keep), call.value("self")), _place(function, call)


def _place(function: _Extreme, call: AtenCall) -> str:
    """Where the first extreme is, along one dimension or in all of them."""
    data, shape = call.value("self"), call.shape("self")
    call.require(is_float(call.type_of(data).dtype), "the place of an integer")
    if call["dim"] is not None:
        (axis,) = _axes(call, call["dim"])
        return call.add(ArgReduce(function, axis, call["keepdim"]), data)
    axes = _axes(call, None)
    flat = call.add(Reshape((prod(shape),)), data)
    found = call.add(ArgReduce(function, 0), flat)
    return call.add(Reshape(reduced_shape(shape, axes, call["keepdim"])), found)


NORM: Final[Mapping[str, Converter]] = {
    "_log_softmax.default": partial(_softmax, True),
    "_native_batch_norm_legit.no_stats": _instance_norm,
    "_native_batch_norm_legit_no_training.default": _batch_norm,
    "_softmax.default": partial(_softmax, False),
    "all.default": partial(_truth, "min"),
    "all.dim": partial(_truth, "min"),
    "all.dims": partial(_truth, "min"),
    "amax.default": partial(_reduce, "max"),
    "amin.default": partial(_reduce, "min"),
    "any.default": partial(_truth, "max"),
    "any.dim": partial(_truth, "max"),
    "any.dims": partial(_truth, "max"),
    "argmax.default": partial(_place, "max"),
    "argmin.default": partial(_place, "min"),
    "cumprod.default": partial(_running, "prod"),
    "cumsum.default": partial(_running, "sum"),
    "linalg_vector_norm.default": _vector_norm,
    "logsumexp.default": partial(_reduce, "log_sum_exp"),
    "max.default": partial(_whole_extreme, "max"),
    "max.dim": partial(_extreme, "max"),
    "mean.default": partial(_reduce, "mean"),
    "mean.dim": partial(_reduce, "mean"),
    "min.default": partial(_whole_extreme, "min"),
    "min.dim": partial(_extreme, "min"),
    "native_batch_norm.default": _any_batch_norm,
    "native_group_norm.default": _group_norm,
    "native_layer_norm.default": _layer_norm,
    "prod.dim_int": partial(_reduce, "prod"),
    "sum.default": partial(_reduce, "sum"),
    "sum.dim_IntList": partial(_reduce, "sum"),
    "var.correction": _variance,
    "var_mean.correction": _variance_and_mean,
}
