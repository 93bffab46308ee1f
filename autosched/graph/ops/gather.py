"""Operators whose indices are data.

Negative indices count from the end; indices out of range are clamped, never read outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import (
    Op,
    Pattern,
    TensorType,
    expect_inputs,
    expect_shape,
    normalize_axis,
)
from sketch.lang.dtypes import is_integer
from sketch.lang.tensor import Tensor
from sketch.operators import gather


@dataclass(frozen=True, slots=True)
class Gather(Op):
    """Slices of the data along ``axis`` (non-negative): NumPy's ``take``."""

    pattern: ClassVar[Pattern] = Pattern.INJECTIVE
    roles: ClassVar[tuple[str, ...]] = ("data", "indices")

    axis: int

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        data, indices = _data_and_indices(self, inputs)
        axis = normalize_axis(self.axis, len(data.shape))
        shape = (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :])
        return TensorType(shape, data.dtype)


@dataclass(frozen=True, slots=True)
class GatherElements(Op):
    """``data[..., indices[..., i, ...], ...]``: the index replaces that of ``axis``."""

    pattern: ClassVar[Pattern] = Pattern.INJECTIVE
    roles: ClassVar[tuple[str, ...]] = ("data", "indices")

    axis: int

    @property
    def kind(self) -> str:
        return "gather_elements"

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        data, indices = _data_and_indices(self, inputs)
        axis = normalize_axis(self.axis, len(data.shape))
        pairs = zip(indices.shape, data.shape, strict=False)
        fits = all(own <= extent for d, (own, extent) in enumerate(pairs) if d != axis)
        if len(indices.shape) != len(data.shape) or not fits:
            raise GraphError(f"indices {indices} do not fit data {data} along axis {axis}")
        return TensorType(indices.shape, data.dtype)


@dataclass(frozen=True, slots=True)
class GatherPoints(Op):
    """Slices at index tuples: the last dimension of ``indices`` (ONNX calls it GatherND).

    The first ``batch`` dimensions of data and indices are the same and stay.
    """

    pattern: ClassVar[Pattern] = Pattern.INJECTIVE
    roles: ClassVar[tuple[str, ...]] = ("data", "indices")

    batch: int = 0

    @property
    def kind(self) -> str:
        return "gather_points"

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        data, indices = _data_and_indices(self, inputs)
        rank = self.batch + (indices.shape[-1] if indices.shape else 0)
        fits = self.batch < len(indices.shape) and rank <= len(data.shape)
        if not fits or data.shape[: self.batch] != indices.shape[: self.batch]:
            raise GraphError(f"indices {indices} do not fit data {data}, batch {self.batch}")
        return TensorType((*indices.shape[:-1], *data.shape[rank:]), data.dtype)


@dataclass(frozen=True, slots=True)
class OneHot(Op):
    """A new ``axis`` (non-negative) of ``depth`` positions, ``values[1]`` at the index and
    ``values[0]`` elsewhere; ``values`` has the shape (2,).
    """

    pattern: ClassVar[Pattern] = Pattern.INJECTIVE
    roles: ClassVar[tuple[str, ...]] = ("indices", "values")

    depth: int
    axis: int

    @property
    def kind(self) -> str:
        return "one_hot"

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, 2)
        indices, values = inputs
        _expect_indices(indices)
        expect_shape(values, (2,), "values")
        axis = normalize_axis(self.axis, len(indices.shape) + 1)
        shape = (*indices.shape[:axis], self.depth, *indices.shape[axis:])
        return TensorType(shape, values.dtype)


@dataclass(frozen=True, slots=True)
class ReverseSequence(Op):
    """The first ``lengths[b]`` steps of each batch element in reverse order."""

    pattern: ClassVar[Pattern] = Pattern.INJECTIVE
    roles: ClassVar[tuple[str, ...]] = ("data", "lengths")

    batch_axis: int
    time_axis: int

    @property
    def kind(self) -> str:
        return "reverse_sequence"

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        data, lengths = _data_and_indices(self, inputs)
        axes = [normalize_axis(axis, len(data.shape)) for axis in (self.batch_axis, self.time_axis)]
        if axes[0] == axes[1]:
            raise GraphError(f"batch and time are both axis {axes[0]}")
        expect_shape(lengths, (data.shape[axes[0]],), "lengths")
        return data


def _data_and_indices(op: Op, inputs: Sequence[TensorType]) -> tuple[TensorType, TensorType]:
    expect_inputs(op, inputs, 2)
    _expect_indices(inputs[1])
    return inputs[0], inputs[1]


def _expect_indices(value: TensorType) -> None:
    if not is_integer(value.dtype):
        raise GraphError(f"indices must be integers, got {value}")


def lower_gather(op: Gather, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage."""
    return (gather.take(inputs[0], inputs[1], op.axis, name),)


def lower_gather_elements(
    op: GatherElements, inputs: Sequence[Tensor], name: str
) -> tuple[Tensor, ...]:
    """One stage."""
    return (gather.take_along(inputs[0], inputs[1], op.axis, name),)


def lower_gather_points(
    op: GatherPoints, inputs: Sequence[Tensor], name: str
) -> tuple[Tensor, ...]:
    """One stage."""
    return (gather.take_points(inputs[0], inputs[1], op.batch, name),)


def lower_one_hot(op: OneHot, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage."""
    return (gather.one_hot(inputs[0], inputs[1], op.depth, op.axis, name),)


def lower_reverse_sequence(
    op: ReverseSequence, inputs: Sequence[Tensor], name: str
) -> tuple[Tensor, ...]:
    """One stage."""
    return (gather.reverse_sequences(inputs[0], inputs[1], op.batch_axis, op.time_axis, name),)
