"""Importers of quantisation, and of products and convolutions of quantised values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from autosched.graph.errors import ModelImportError
from autosched.graph.ops.base import normalize_axis
from autosched.graph.ops.elementwise import BinaryOp, CastOp, UnaryOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.shape import Reshape
from autosched.onnx.importer.convolution import conv_of
from autosched.onnx.importer.site import Site, UnsupportedError

_QUANTISED: Final = ("int8", "uint8", "int16")
_DEQUANTISED: Final = (*_QUANTISED, "int32")
BELOW_A_BYTE: Final = {"int4": "int8", "uint4": "uint8", "int2": "int8", "uint2": "uint8"}
"""The bytes that hold integers of fewer bits."""
_FLOAT: Final = "float32"  # what scaling is computed in; 16-bit scales are widened


def import_quantize(site: Site) -> None:
    """QuantizeLinear: ``saturate(round(x / scale) + zero_point)``."""
    dtype = _quantised_dtype(site)
    _check_divisor(site, 1)
    scaled = site.step(BinaryOp("div"), [_as(site, 0, _FLOAT), _parameter(site, 1)])
    zero = _parameter(site, 2) if site.has(2) else None
    emit_quantised(site, scaled, zero, dtype)


def import_dequantize(site: Site) -> None:
    """DequantizeLinear: ``(x - zero_point) * scale``."""
    if site.type(0).dtype not in (*_DEQUANTISED, *BELOW_A_BYTE):
        raise UnsupportedError(f"quantised values of {site.type(0).dtype}")
    value = _as(site, 0, _FLOAT)
    if site.has(2):
        value = site.step(BinaryOp("sub"), [value, _parameter(site, 2)])
    value = site.step(BinaryOp("mul"), [value, _parameter(site, 1)])
    site.emit(CastOp(_dtype_attribute(site) or site.type(1).dtype), [value])


def _import_matmul_integer(site: Site) -> None:
    """MatMulInteger: int32 products of what is left without the zero points."""
    site.emit(MatMul(), _centered_operands(site, _Operands((0, 2), (1, 3))))


def _import_qlinear_matmul(site: Site) -> None:
    """QLinearMatMul: an int32 product, scaled to the result's type."""
    product = site.step(MatMul(), _centered_operands(site, _Operands((0, 2), (3, 5))))
    row, column = _of_rows(site, 1), _of_columns(site, 4)
    _emit_scaled(site, product, [site.cast(row, _FLOAT), site.cast(column, _FLOAT)], (6, 7))


def _import_conv_integer(site: Site) -> None:
    """ConvInteger: an int32 convolution of what is left without the zero points."""
    _check_single(site, (2,))
    site.emit(conv_of(site), _centered_maps(site, _Operands((0, 2), (1, 3))))


def _import_qlinear_conv(site: Site) -> None:
    """QLinearConv: an int32 convolution, scaled to the result's type."""
    _check_single(site, (1, 2, 6, 7))
    bias = [site.input(8)] if site.has(8) else []
    maps = _centered_maps(site, _Operands((0, 2), (3, 5)))
    product = site.step(conv_of(site, 3), [*maps, *bias])
    weight_scale = _along(site, site.input(4), 1, site.rank(0))
    scales = [site.cast(site.input(1), _FLOAT), site.cast(weight_scale, _FLOAT)]
    _emit_scaled(site, product, scales, (6, 7))


def _check_single(site: Site, numbers: tuple[int, ...]) -> None:
    """Refuse several scales or zero points of a map: ONNX has one, and of weights alone more."""
    for number in numbers:
        if site.has(number) and math.prod(site.type(number).shape) != 1:
            raise ModelImportError(
                f"{site.node.input[number]!r} has shape {site.type(number).shape}",
                f"node {site.label} ({site.node.op_type})",
                "maps have one scale and one zero point; weights alone may have several",
            )


def _check_divisor(site: Site, number: int) -> None:
    """Refuse to divide by constant scales that are 0 or NaN: no integer is nearest to that."""
    name = site.node.input[number]
    scales = site.arrays.get(name)
    if scales is None:
        return
    wrong = scales[(scales == 0) | np.isnan(scales)]
    if wrong.size:
        raise ModelImportError(
            f"{wrong.size} of {scales.size} elements of scale {name!r} are {wrong[0]:g}",
            f"node {site.label} ({site.node.op_type})",
            "values are divided by it: quantise the model again with data that are not all zero",
        )


IMPORT_QUANTISED: Final[dict[str, Callable[[Site], None]]] = {
    "ConvInteger": _import_conv_integer,
    "DequantizeLinear": import_dequantize,
    "MatMulInteger": _import_matmul_integer,
    "QLinearConv": _import_qlinear_conv,
    "QLinearMatMul": _import_qlinear_matmul,
    "QuantizeLinear": import_quantize,
}


@dataclass(frozen=True, slots=True)
class _Operands:
    """Places of the data and the zero point of both operands among a node's inputs."""

    lhs: tuple[int, int]
    rhs: tuple[int, int]


def _dtype_attribute(site: Site) -> str | None:
    number = site.attributes.get("output_dtype", 0)
    return str(helper.tensor_dtype_to_np_dtype(number)) if number else None


def _quantised_dtype(site: Site) -> str:
    dtype = site.type(2).dtype if site.has(2) else _dtype_attribute(site) or "uint8"
    if dtype not in _QUANTISED or site.attributes.get("precision", 0):
        raise UnsupportedError(f"quantisation to {dtype} with the precision given")
    return dtype


def emit_quantised(site: Site, scaled: str, zero_point: str | None, dtype: str) -> None:
    """Emit a value as integers: rounded half to even, moved by the zero point; the cast saturates.

    Args:
        site: the node.
        scaled: floats, in quanta.
        zero_point: a whole float; None: 0.
        dtype: of the integers.
    """
    whole = site.step(UnaryOp("round"), [scaled])
    if zero_point is not None:
        whole = site.step(BinaryOp("add"), [whole, zero_point])
    site.emit(CastOp(dtype), [whole])


def _emit_scaled(site: Site, product: str, scales: list[str], result: tuple[int, int]) -> None:
    """Emit an int32 product under two scales, quantised with the scale and zero point given.

    The scales are combined first, and the product is scaled once: nice scales make halves, and
    one rounding more would send them to another integer than in the runtimes of such models.
    """
    scale, zero_point = result
    _check_divisor(site, scale)
    factor = site.step(BinaryOp("mul"), scales)
    ratio = site.step(BinaryOp("div"), [factor, _as(site, scale, _FLOAT)])
    value = site.step(BinaryOp("mul"), [site.cast(product, _FLOAT), ratio])
    dtype = site.type(zero_point).dtype
    emit_quantised(site, value, _as(site, zero_point, _FLOAT), dtype)


def _as(site: Site, index: int, dtype: str) -> str:
    """Input ``index``, converted."""
    if site.type(index).dtype in BELOW_A_BYTE:
        return site.step(CastOp(dtype), [site.add_constant(f"bytes{index}", _bytes(site, index))])
    return site.cast(site.input(index), dtype)


def _bytes(site: Site, index: int) -> NDArray[Any]:
    """A constant of integers of few bits, each in a byte."""
    array = site.constant(index)
    assert array is not None  # callers have looked
    return array.astype(BELOW_A_BYTE[str(array.dtype)])


def _parameter(site: Site, index: int) -> str:
    """Scales or zero points as floats that broadcast to the data: one, one a slice, or blocks."""
    shape, rank = site.type(index).shape, site.rank(0)
    axis = normalize_axis(site.attributes.get("axis", 1), rank) if shape and rank > 1 else 0
    if site.attributes.get("block_size", 0) and shape:
        return _blocks(site, index, axis)
    if len(shape) > 1:
        raise UnsupportedError(f"parameters of shape {shape}")
    return _along(site, _as(site, index, _FLOAT), axis, rank)


def _blocks(site: Site, index: int, axis: int) -> str:
    array = site.constant(index)
    assert array is not None  # callers have looked
    size, extent = int(site.attributes["block_size"]), site.type(0).shape[axis]
    whole: NDArray[Any] = np.repeat(array, size, axis=axis).take(range(extent), axis=axis)
    return site.add_constant(f"parameter{index}", whole.astype(np.float32))


def _along(site: Site, value: str, axis: int, rank: int) -> str:
    """A vector as one value for each slice along ``axis``; one element is for all of them."""
    shape = site.builder.types[value].shape
    if len(shape) != 1:
        return value
    wanted = tuple(shape[0] if d == axis else 1 for d in range(rank)) if shape[0] > 1 else ()
    return site.step(Reshape(wanted), [value])


def _of_rows(site: Site, index: int) -> str:
    """A parameter of the rows of a matrix: a vector becomes a column."""
    value, shape = site.input(index), site.type(index).shape
    return value if len(shape) != 1 else site.step(Reshape((*shape, 1)), [value])


def _of_columns(site: Site, index: int) -> str:
    """A parameter of the columns of a matrix: a vector is a row already."""
    return site.input(index)


def _centered_operands(site: Site, places: _Operands) -> list[str]:
    """Both matrices in int32, without their zero points."""
    (lhs, lhs_zero), (rhs, rhs_zero) = places.lhs, places.rhs
    if min(site.rank(lhs), site.rank(rhs)) < 2:
        raise UnsupportedError("an operand has fewer than 2 dimensions")
    rows = _of_rows(site, lhs_zero) if site.has(lhs_zero) else None
    columns = _of_columns(site, rhs_zero) if site.has(rhs_zero) else None
    return [_centered(site, lhs, rows), _centered(site, rhs, columns)]


def _centered_maps(site: Site, places: _Operands) -> list[str]:
    """Maps and weights in int32, without their zero points."""
    (data, data_zero), (weight, weight_zero) = places.lhs, places.rhs
    rank = site.rank(data)
    zero = _along(site, site.input(data_zero), 1, rank) if site.has(data_zero) else None
    filters = _along(site, site.input(weight_zero), 0, rank) if site.has(weight_zero) else None
    return [_centered(site, data, zero), _centered(site, weight, filters)]


def _centered(site: Site, index: int, zero_point: str | None) -> str:
    value = _as(site, index, "int32")
    if zero_point is None:
        return value
    zero = site.step(CastOp("int32"), [zero_point])
    return site.step(BinaryOp("sub"), [value, zero])
