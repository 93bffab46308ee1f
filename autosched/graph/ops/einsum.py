"""Products of tensors summed over labelled axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import Op, Pattern, TensorType, expect_inputs, is_computed_in
from sketch.errors import ExpressionError
from sketch.lang.tensor import Tensor
from sketch.operators import einsum


@dataclass(frozen=True, slots=True)
class Einsum(Op):
    """The product of all inputs, summed over the labels that ``output`` does not have.

    ``labels`` has a string for each input, a letter for each dimension; a dimension of extent 1 is
    repeated where another input has more.  A letter twice in one input stands for its diagonal.
    ``dtype``: a wider type that products of two inputs are computed and summed in; None: theirs.
    """

    pattern: ClassVar[Pattern] = Pattern.COMPLEX

    labels: tuple[str, ...]
    output: str
    dtype: str | None = None

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        expect_inputs(self, inputs, len(self.labels))
        if self.dtype is None and len({value.dtype for value in inputs}) > 1:
            raise GraphError(f"operands have different dtypes: {', '.join(map(str, inputs))}")
        try:
            shapes = [value.shape for value in inputs]
            extents = einsum.label_extents(shapes, self.labels, "")
        except ExpressionError as error:
            raise GraphError(error.what) from None
        if len(set(self.output)) < len(self.output) or not set(self.output) <= set(extents):
            raise GraphError(f"output labels {self.output!r} must be distinct and occur before")
        if self.dtype is not None and not self._is_computed(inputs, self.dtype):
            raise GraphError(f"{', '.join(map(str, inputs))} are not multiplied in {self.dtype}")
        dtype = inputs[0].dtype if self.dtype is None else self.dtype
        return TensorType(tuple(extents[label] for label in self.output), dtype)

    def _is_computed(self, inputs: Sequence[TensorType], dtype: str) -> bool:
        return len(inputs) == 2 and is_computed_in(inputs[0], inputs[1], dtype)


def lower_einsum(op: Einsum, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """One stage."""
    return (einsum.einsum(inputs, op.labels, op.output, name, op.dtype),)
