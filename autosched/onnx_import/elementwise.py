"""Importers of element-wise and broadcast operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from onnx import helper

from autosched.graph.ops.elementwise import (
    Binary,
    BinaryFunction,
    Cast,
    Clip,
    Identity,
    LeakyRelu,
    Unary,
    UnaryFunction,
)
from autosched.onnx_import.site import Site, UnsupportedError
from sketch.dtypes import SUPPORTED

_UNARY: Final[dict[str, UnaryFunction]] = {
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
}
_BINARY: Final[dict[str, BinaryFunction]] = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "Max": "max",
    "Min": "min",
}


def _import_unary(function: UnaryFunction, site: Site) -> None:
    site.emit(Unary(function), [site.input(0)])


def _import_binary(function: BinaryFunction, site: Site) -> None:
    """Two operands; Max and Min take any number."""
    operands = [_operand(site, index) for index in range(site.arity)]
    if len(operands) == 1:
        site.emit(Identity(), operands)
        return
    total = operands[0]
    for operand in operands[1:-1]:
        total = site.step(Binary(function), [total, operand])
    site.emit(Binary(function), [total, operands[-1]])


def _operand(site: Site, index: int) -> str:
    """An operand; a scalar constant gets one dimension, which broadcasts alike."""
    array = site.constant(index) if site.node.input[index] in site.arrays else None
    if array is None or array.shape:
        return site.input(index)
    return site.add_constant(f"scalar{index}", array.reshape(1))


IMPORT_UNARY: Final[dict[str, Callable[[Site], None]]] = {
    name: partial(_import_unary, function) for name, function in _UNARY.items()
}
IMPORT_BINARY: Final[dict[str, Callable[[Site], None]]] = {
    name: partial(_import_binary, function) for name, function in _BINARY.items()
}


def import_identity(site: Site) -> None:
    """Identity, and Dropout at inference."""
    training = site.constant(2) if site.node.op_type == "Dropout" else None
    if training is not None and bool(training.item()):
        raise UnsupportedError("training mode")
    site.emit(Identity(), [site.input(0)])


def import_leaky_relu(site: Site) -> None:
    """LeakyRelu."""
    site.emit(LeakyRelu(float(site.attributes.get("alpha", 0.01))), [site.input(0)])


def import_clip(site: Site) -> None:
    """Clip with constant bounds: attributes up to opset 10, inputs later."""
    bounds: list[float | None] = []
    for index, attribute in ((1, "min"), (2, "max")):
        array = site.constant(index)
        value = site.attributes.get(attribute) if array is None else array.item()
        bounds.append(None if value is None else float(value))
    site.emit(Clip(bounds[0], bounds[1]), [site.input(0)])


def import_cast(site: Site) -> None:
    """Cast between supported dtypes."""
    dtype = str(helper.tensor_dtype_to_np_dtype(site.attributes["to"]))
    if dtype not in SUPPORTED:
        raise UnsupportedError(f"cast to {dtype}")
    site.emit(Cast(dtype), [site.input(0)])
