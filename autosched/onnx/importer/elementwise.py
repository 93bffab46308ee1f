"""Importers of element-wise and broadcast operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from autosched.graph.ops.elementwise import (
    BinaryFunction,
    BinaryOp,
    CastOp,
    Clip,
    Identity,
    UnaryFunction,
    UnaryOp,
    Where,
)
from autosched.onnx.importer.site import Site, UnsupportedError
from sketch.lang.dtypes import SUPPORTED, is_float, numpy_dtype

UNARY_OPERATORS: Final[dict[str, UnaryFunction]] = {
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
    "Exp": "exp",
    "Log": "log",
    "Sqrt": "sqrt",
    "Erf": "erf",
    "Abs": "abs",
    "Neg": "neg",
    "Floor": "floor",
    "Ceil": "ceil",
    "Not": "not",
    "Reciprocal": "reciprocal",
    "Sign": "sign",
    "Round": "round",
    "Sin": "sin",
    "Cos": "cos",
    "Tan": "tan",
    "Asin": "asin",
    "Acos": "acos",
    "Atan": "atan",
    "Sinh": "sinh",
    "Cosh": "cosh",
    "Asinh": "asinh",
    "Acosh": "acosh",
    "Atanh": "atanh",
    "IsNaN": "is_nan",
    "BitwiseNot": "bit_not",
}
BINARY_OPERATORS: Final[dict[str, BinaryFunction]] = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "Max": "max",
    "Min": "min",
    "And": "and",
    "Or": "or",
    "Equal": "eq",
    "Less": "lt",
    "LessOrEqual": "le",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "PRelu": "prelu",
    "BitwiseAnd": "bit_and",
    "BitwiseOr": "bit_or",
    "BitwiseXor": "bit_xor",
}


def _import_unary(function: UnaryFunction, site: Site) -> None:
    site.emit(UnaryOp(function), [site.input(0)])


def _import_binary(function: BinaryFunction, site: Site) -> None:
    """Two operands; Max, Min and Sum take any number."""
    _emit_chain(site, function, site.inputs())


def _emit_chain(site: Site, function: BinaryFunction, operands: list[str]) -> None:
    if len(operands) == 1:
        site.emit(Identity(), operands)
        return
    site.emit(BinaryOp(function), [_chained(site, function, operands[:-1]), operands[-1]])


def _chained(site: Site, function: BinaryFunction, operands: list[str]) -> str:
    total = operands[0]
    for operand in operands[1:]:
        total = site.step(BinaryOp(function), [total, operand])
    return total


def import_mod(site: Site) -> None:
    """Mod: the sign of the divisor, or with ``fmod`` that of the dividend."""
    truncated = bool(site.attributes.get("fmod", 0))
    site.emit(BinaryOp("trunc_mod" if truncated else "mod"), site.inputs())


def import_bit_shift(site: Site) -> None:
    """BitShift."""
    left = site.attributes["direction"] == "LEFT"
    site.emit(BinaryOp("shift_left" if left else "shift_right"), site.inputs())


def import_is_inf(site: Site) -> None:
    """IsInf, of both signs or of one."""
    positive = bool(site.attributes.get("detect_positive", 1))
    negative = bool(site.attributes.get("detect_negative", 1))
    data = site.input(0)
    if positive and negative:
        site.emit(UnaryOp("is_inf"), [data])
        return
    if not positive and not negative:
        site.builder.constant(site.node.output[0], np.zeros(site.type(0).shape, np.bool_))
        return
    limit = np.full(1, np.inf if positive else -np.inf).astype(numpy_dtype(site.type(0).dtype))
    site.emit(BinaryOp("eq"), [data, site.add_constant("limit", limit)])


def import_mean(site: Site) -> None:
    """Mean of any number of operands."""
    total = _chained(site, "add", site.inputs())
    count = np.full(1, site.arity).astype(numpy_dtype(site.type(0).dtype))
    site.emit(BinaryOp("div"), [total, site.add_constant("count", count)])


def import_where(site: Site) -> None:
    """Where."""
    site.emit(Where(), site.inputs())


def import_identity(site: Site) -> None:
    """Identity, and Dropout at inference, whose mask is true everywhere."""
    dropout = site.node.op_type == "Dropout"
    training, ratio = (site.constant(2), site.constant(1)) if dropout else (None, None)
    kept_whole = ratio is not None and float(ratio.item()) == 0
    if training is not None and bool(training.item()) and not kept_whole:
        raise UnsupportedError("training mode")
    site.emit(Identity(), [site.input(0)])
    if dropout and len(site.node.output) > 1 and site.node.output[1]:
        site.builder.constant(site.node.output[1], np.ones(site.type(0).shape, np.bool_))


def import_clip(site: Site) -> None:
    """Clip: bounds are attributes up to opset 10, inputs later, where they may be computed."""
    data = site.input(0)
    low, high = (_bound(site, index, name) for index, name in ((1, "min"), (2, "max")))
    if isinstance(low, str):
        data, low = site.step(BinaryOp("max"), [data, low]), None
    if isinstance(high, str):
        if low is not None:
            data = site.step(Clip(low, None), [data])
        site.emit(BinaryOp("min"), [data, high])
        return
    site.emit(Clip(low, high), [data])


def _bound(site: Site, index: int, attribute: str) -> float | str | None:
    """A bound of Clip: a number, the value that holds it, or None."""
    if site.has(index) and site.node.input[index] not in site.arrays:
        return site.input(index)
    array = site.constant(index)
    if array is None:
        value = site.attributes.get(attribute)
        return None if value is None else float(value)
    return float(array.item()) if is_float(str(array.dtype)) else int(array.item())


def import_cast(site: Site) -> None:
    """Cast between supported dtypes."""
    _emit_cast(site, str(helper.tensor_dtype_to_np_dtype(site.attributes["to"])))


def import_cast_like(site: Site) -> None:
    """CastLike: only the type of the second input matters."""
    _emit_cast(site, site.type(1).dtype)


def _emit_cast(site: Site, dtype: str) -> None:
    if dtype not in SUPPORTED:
        raise UnsupportedError(f"cast to {dtype}")
    site.emit(CastOp(dtype), [site.input(0)])


def import_pow(site: Site) -> None:
    """Pow; small constant exponents are multiplications and roots.

    The result has the dtype of the base; an exponent of another dtype is converted to it, or both
    to float64 where the base is an integer and the exponent is not.
    """
    base, exponent = site.type(0).dtype, site.type(1).dtype
    if site.node.input[1] in site.arrays and _import_constant_power(site):
        return
    operands = site.inputs()
    if base == exponent:
        site.emit(BinaryOp("pow"), operands)
    elif is_float(base) or not is_float(exponent):
        site.emit(BinaryOp("pow"), [operands[0], site.step(CastOp(base), [operands[1]])])
    else:
        wide = [site.step(CastOp("float64"), [operand]) for operand in operands]
        site.emit(CastOp(base), [site.step(BinaryOp("pow"), wide)])


def _import_constant_power(site: Site) -> bool:
    array = site.constant(1)
    assert array is not None
    if array.size != 1 or len(array.shape) > site.rank(0):
        return False
    return _emit_power(site, array, site.input(0))


def _emit_power(site: Site, exponent: NDArray[Any], data: str) -> bool:
    match float(exponent.item()):
        case 1.0:
            site.emit(Identity(), [data])
        case 2.0:
            site.emit(BinaryOp("mul"), [data, data])
        case 3.0:
            site.emit(BinaryOp("mul"), [site.step(BinaryOp("mul"), [data, data]), data])
        case 0.5 if is_float(site.type(0).dtype):
            _emit_root(site, data)
        case _:
            return False
    return True


def _emit_root(site: Site, data: str) -> None:
    """The power 0.5 is the square root, but 0 of -0 and infinity of minus infinity."""
    dtype = site.type(0).dtype
    zero, infinity, lowest = (
        site.scalar(name, value, dtype)
        for name, value in (("zero", 0.0), ("infinity", np.inf), ("lowest", -np.inf))
    )
    positive = site.step(BinaryOp("add"), [data, zero])
    unbounded = site.step(BinaryOp("eq"), [data, lowest])
    site.emit(Where(), [unbounded, infinity, site.step(UnaryOp("sqrt"), [positive])])


IMPORT_ELEMENTWISE: Final[dict[str, Callable[[Site], None]]] = {
    **{name: partial(_import_unary, function) for name, function in UNARY_OPERATORS.items()},
    **{name: partial(_import_binary, function) for name, function in BINARY_OPERATORS.items()},
    "BitShift": import_bit_shift,
    "Cast": import_cast,
    "CastLike": import_cast_like,
    "Clip": import_clip,
    "Dropout": import_identity,
    "Identity": import_identity,
    "IsInf": import_is_inf,
    "Mean": import_mean,
    "Mod": import_mod,
    "Pow": import_pow,
    "Sum": partial(_import_binary, "add"),
    "Where": import_where,
    "Xor": partial(_import_binary, "ne"),
}
