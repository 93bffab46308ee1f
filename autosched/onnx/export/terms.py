"""What forms are made of: ONNX operators applied to values, constants and each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from onnx import helper

from autosched.graph.ir import Array
from autosched.graph.ops.base import TensorType
from sketch.lang.dtypes import integer_limits, is_integer, numpy_dtype

OPSET: Final = 18
NARROW: Final = ("int8", "int16", "uint8")
"""Integers that ONNX, or onnxruntime, has no arithmetic for in many operators."""
WIDE: Final = "int32"


@dataclass(frozen=True, slots=True, eq=False)
class GivenValue:
    """A value of the graph; ``array``: where it is a constant."""

    name: str
    type: TensorType
    array: Array | None = None

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def rank(self) -> int:
        return len(self.type.shape)


@dataclass(frozen=True, slots=True, eq=False)
class OnnxCall:
    """An ONNX operator; the result is its output of number ``output``.

    A call that is part of several others is one node.
    """

    operator: str
    inputs: tuple[Part, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    output: int = 0


Part = GivenValue | OnnxCall | Array
"""Arrays become initializers."""


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """The operands of a node, and the type of its result."""

    operands: tuple[GivenValue, ...]
    result: TensorType

    @property
    def data(self) -> GivenValue:
        """The first operand."""
        return self.operands[0]


Form = Callable[[Any, Given], OnnxCall]
"""(operator, operands and result) -> what computes it in ONNX."""


def call(operator: str, *inputs: Part, **attributes: Any) -> OnnxCall:
    """An ONNX operator on some inputs."""
    return OnnxCall(operator, inputs, attributes)


def integers(values: Sequence[int]) -> Array:
    """An int64 vector: axes, extents."""
    return np.array(values, np.int64)


def scalar(value: float | int | bool, dtype: str) -> Array:
    """A number without dimensions; of integers the nearest that the type has."""
    if is_integer(dtype):
        low, high = integer_limits(dtype)
        value = low if value <= low else high if value >= high else int(value)
    return np.array(value, numpy_dtype(dtype))


def cast(value: Part, dtype: str) -> OnnxCall:
    """The value as ``dtype``."""
    return call("Cast", value, to=helper.np_dtype_to_tensor_dtype(numpy_dtype(dtype)))


def converted(value: Part, source: str, target: str) -> Part:
    """A value of type ``source`` as ``target``, itself where both are the same."""
    return value if source == target else cast(value, target)


def stored(value: OnnxCall, source: str, target: str) -> OnnxCall:
    """As ``converted``, of a call."""
    return value if source == target else cast(value, target)


def widened(dtype: str, narrow: Sequence[str] = NARROW) -> str:
    """The type that ``dtype`` is computed in where some types have no arithmetic."""
    return WIDE if dtype in narrow else dtype


def in_wide(
    operator: str, given: Given, *further: Part, narrow: Sequence[str] = NARROW, **attributes: Any
) -> OnnxCall:
    """An operator on all operands, whose types in ``narrow`` are computed in int32.

    Args:
        operator: of ONNX.
        given: operands of one type, and the result of that or another one.
        further: inputs after the operands.
        narrow: types that the operator does not take.
        attributes: of the operator.
    """
    own = given.data.dtype
    wide = widened(own, narrow)
    operands = [converted(operand, own, wide) for operand in given.operands]
    found = call(operator, *operands, *further, **attributes)
    return stored(found, wide, own) if given.result.dtype == own else found


def as_index(value: GivenValue) -> Part:
    """Positions as int64, which all operators take."""
    return converted(value, value.dtype, "int64")


def reshaped(value: Part, shape: Sequence[int]) -> OnnxCall:
    """The same elements under another shape."""
    return call("Reshape", value, integers(shape))
