"""Forms of products: matrices, labelled axes, convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autosched.graph.errors import GraphError
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.conv_transpose import ConvTranspose
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.narrow import NarrowMatMul
from autosched.onnx.export.terms import (
    Given,
    GivenValue,
    OnnxCall,
    Part,
    call,
    converted,
    reshaped,
    stored,
    widened,
)
from sketch.lang.dtypes import BYTES, is_float, numpy_dtype
from sketch.operators.factors import TF32
from sketch.operators.narrow import integers_of


def matmul(op: MatMul, given: Given) -> OnnxCall:
    """MatMul, or MatMulInteger of bytes."""
    return _product(given.operands, op.dtype)


def dense(op: Dense, given: Given) -> OnnxCall:
    """Gemm; of integers, which it does not take, a product and a sum."""
    factors, bias = given.operands[:2], given.operands[2:]
    if op.dtype is None and is_float(given.data.dtype):
        return call("Gemm", *given.operands)
    found = _product(factors, op.dtype)
    return call("Add", found, *bias) if bias else found


def _product(factors: Sequence[GivenValue], dtype: str | None) -> OnnxCall:
    if _is_integer_product(factors, dtype):
        return call("MatMulInteger", *factors)
    own = factors[0].dtype
    wide = widened(own) if dtype is None else dtype
    found = call("MatMul", *_factors(factors, wide))
    return stored(found, wide, own) if dtype is None else found


def _is_integer_product(factors: Sequence[GivenValue], dtype: str | None) -> bool:
    return dtype == "int32" and all(factor.dtype in BYTES for factor in factors)


def _factors(factors: Sequence[GivenValue], dtype: str) -> list[Part]:
    """Operands in the type that they are multiplied in.

    Raises:
        GraphError: they are rounded to tf32.
    """
    if dtype == TF32:
        raise GraphError("a product of numbers rounded to tf32 has no ONNX form")
    return [converted(factor, factor.dtype, dtype) for factor in factors]


def einsum(op: Einsum, given: Given) -> OnnxCall:
    """Einsum."""
    own = given.data.dtype
    wide = widened(own) if op.dtype is None else op.dtype
    equation = f"{','.join(op.labels)}->{op.output}"
    found = call("Einsum", *_factors(given.operands, wide), equation=equation)
    return stored(found, wide, own) if op.dtype is None else found


def narrow_matmul(op: NarrowMatMul, given: Given) -> OnnxCall:
    """MatMul with the matrix that the words stand for, as floats.

    Raises:
        GraphError: the words, or their scales, are no constants.
    """
    data, *stored_parts = given.operands
    arrays = [operand.array for operand in stored_parts if operand.array is not None]
    if len(arrays) != len(stored_parts):
        raise GraphError("a matrix of narrow integers that is no constant has no ONNX form")
    words, scale, *zero = (np.asarray(array) for array in arrays)
    integers = integers_of(words.astype(np.int32), op.stored).astype(np.float64)
    rows = np.arange(len(integers)) // op.stored.block
    shifted = integers - zero[0].astype(np.float64)[rows] if zero else integers
    matrix = shifted * scale.astype(np.float64)[rows]
    return call("MatMul", data, matrix.astype(numpy_dtype(data.dtype)))


def conv(op: Conv, given: Given) -> OnnxCall:
    """Conv, or ConvInteger of bytes and a sum.

    Raises:
        GraphError: other integers are multiplied, or numbers rounded to tf32.
    """
    factors, bias = given.operands[:2], given.operands[2:]
    if not _is_integer_product(factors, op.dtype):
        return _float_conv("Conv", op, given, _conv_attributes(op))
    found = call("ConvInteger", *factors, **_conv_attributes(op))
    if not bias:
        return found
    return call("Add", found, reshaped(bias[0], (1, -1, *(1 for _ in op.strides))))


def conv_transpose(op: ConvTranspose, given: Given) -> OnnxCall:
    """ConvTranspose.  Raises GraphError as ``conv``."""
    attributes = {**_conv_attributes(op), "output_padding": op.output_padding}
    return _float_conv("ConvTranspose", op, given, attributes)


def _conv_attributes(op: Conv) -> dict[str, Any]:
    return {
        "strides": op.strides,
        "pads": op.padding,
        "dilations": op.dilation,
        "group": op.groups,
    }


def _float_conv(operator: str, op: Conv, given: Given, attributes: dict[str, Any]) -> OnnxCall:
    """A convolution of floats.

    Args:
        operator: of ONNX.
        op: the convolution.
        given: its operands.
        attributes: of the operator.

    Raises:
        GraphError: it is one of integers, or of numbers rounded to tf32.
    """
    wide = given.data.dtype if op.dtype is None else op.dtype
    if wide != TF32 and not is_float(wide):
        raise GraphError(f"{op.kind} of integers in {wide} has no ONNX form")
    return call(operator, *_factors(given.operands, wide), **attributes)
