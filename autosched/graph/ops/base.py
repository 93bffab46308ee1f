"""What every graph operator is: frozen attributes, shape inference, a fusion class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, Literal

from autosched.graph.errors import GraphError
from autosched.system.element_types import element_bytes
from sketch.lang.dtypes import SUPPORTED, is_float, is_integer, is_storage_float
from sketch.operators.factors import TF32

Shape = tuple[int, ...]
Pair = tuple[int, int]
Layout = Literal["NCHW", "NHWC"]


class Pattern(IntEnum):
    """How an operator may be fused, from the most to the least permissive.

    The classes are those of FuseOps (Chen et al., OSDI'18, section 3).
    """

    ELEMENTWISE = 0  # output element i reads element i of every operand
    BROADCAST = 1  # as above, but an operand may be repeated along some axes
    INJECTIVE = 2  # one input element per output element, at any position
    REDUCTION = 3  # several input elements per output element, little reuse
    COMPLEX = 4  # conv, dense, pooling: an anchor that takes an element-wise epilogue
    OPAQUE = 8  # never fused


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and dtype of a value."""

    shape: Shape
    dtype: str

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return self.size * element_bytes(self.dtype)

    @property
    def native(self) -> bool:
        """Whether kernels can work on such a value; others pass between host operators only."""
        return self.dtype in SUPPORTED and all(extent > 0 for extent in self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def is_computed_in(lhs: TensorType, rhs: TensorType, dtype: str) -> bool:
    """Whether products of such operands are computed and summed in the wider ``dtype``: those of
    integers in integers, those of 16-bit floats in float32; those of float32 in tf32.
    """
    given = lhs.dtype, rhs.dtype
    if dtype == TF32:
        return set(given) == {"float32"}
    if all(map(is_storage_float, given)):
        return dtype == "float32"
    return all(map(is_integer, (*given, dtype)))


MAX_VALUE_BYTES: Final = 1 << 34
"""No value may be larger: checked before anything is allocated."""


def check_size(name: str, kind: TensorType) -> None:
    """Raise GraphError when a value of this type is too large for any memory."""
    if kind.size_bytes > MAX_VALUE_BYTES:
        raise GraphError(
            f"value {name!r} of type {kind} needs {kind.size_bytes:,} bytes",
            hint=f"values have at most {MAX_VALUE_BYTES:,} bytes",
        )


class Op(ABC):
    """Base of graph operators: frozen dataclasses whose fields are the attributes."""

    __slots__ = ()

    pattern: ClassVar[Pattern]
    roles: ClassVar[tuple[str, ...]] = ("data",)
    """Names of the inputs, in order; the last one repeats for variadic operators."""
    on_host: ClassVar[bool] = False
    """Whether no kernel computes it; only such operators take values that are not native."""

    @property
    def kind(self) -> str:
        """Name of the operator, in snake case; also names its stages."""
        return type(self).__name__.lower()

    @property
    def reads_once(self) -> bool:
        """Whether each element of the input is read once: computing it on the way costs nothing."""
        return True

    @abstractmethod
    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        """Type of the output.  Raises GraphError when the inputs do not fit."""


def expect_inputs(op: Op, inputs: Sequence[TensorType], low: int, high: int | None = None) -> None:
    """Raise GraphError when an operator has too few or too many operands.

    Args:
        op: the operator.
        inputs: types of its operands.
        low: fewest.
        high: most; None: ``low``.
    """
    limit = low if high is None else high
    if not low <= len(inputs) <= limit:
        wanted = str(low) if low == limit else f"{low} to {limit}"
        raise GraphError(f"takes {wanted} inputs, got {len(inputs)}")


def expect_rank(op: Op, value: TensorType, rank: int, role: str = "data") -> None:
    """Raise GraphError unless ``value`` has ``rank`` dimensions.

    Args:
        op: the operator.
        value: type of an operand.
        rank: its dimensions.
        role: what the operand is, for the error.
    """
    if len(value.shape) != rank:
        raise GraphError(f"{role} must have {rank} dimensions, got {value}")


def expect_float(value: TensorType, role: str = "data") -> None:
    """Raise GraphError unless ``value`` holds floats."""
    if not is_float(value.dtype):
        raise GraphError(f"{role} must be floats, got {value}")


def expect_shape(value: TensorType, shape: Shape, role: str) -> None:
    """Raise GraphError unless ``value`` has exactly this shape."""
    if value.shape != shape:
        raise GraphError(f"{role} must have shape {shape}, got {value}")


def broadcast_shape(shapes: Sequence[Shape]) -> Shape:
    """NumPy's broadcast of several shapes.  Raises GraphError when they do not fit."""
    rank = max(len(shape) for shape in shapes)
    result = [1] * rank
    for shape in shapes:
        for dimension, extent in enumerate(shape, rank - len(shape)):
            if extent != 1 and result[dimension] not in (1, extent):
                listed = " and ".join(map(str, shapes))
                raise GraphError(f"shapes {listed} do not broadcast")
            result[dimension] = max(result[dimension], extent)
    return tuple(result)


def normalize_axis(axis: int, rank: int) -> int:
    """``axis`` counted from the front.  Raises GraphError when it is out of range."""
    if not -rank <= axis < rank:
        raise GraphError(f"axis {axis} is out of range for {rank} dimensions")
    return axis % rank
