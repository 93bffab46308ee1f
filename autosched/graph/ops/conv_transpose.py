"""Transposed convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import Shape, TensorType
from autosched.graph.ops.conv import (
    Conv,
    buffer_order,
    channels_last_operands,
    checked_inputs,
    output_type,
    with_bias,
)
from sketch.lang.tensor import Tensor
from sketch.operators import transposed


@dataclass(frozen=True, slots=True)
class ConvTranspose(Conv):
    """The transpose of a grouped, dilated convolution, plus ``bias`` if given.

    As ``Conv``, but each input adds to several outputs, ``strides`` apart; ``padding`` outputs are
    left out at the sides and ``output_padding`` are added at the high sides.

    ``layout`` NCHW: weight ``[ic, oc/groups, *kernel]``.
    """

    transposed: ClassVar[bool] = True

    output_padding: Shape = (0, 0)

    @property
    def kind(self) -> str:
        return f"conv{len(self.strides)}d_transpose"

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        form, extents = checked_inputs(self, inputs)
        rank = self.spatial
        outputs = tuple(
            (extents[d] - 1) * self.strides[d]
            + (form.kernel[d] - 1) * self.dilation[d]
            + 1
            + extra
            - self.padding[d]
            - self.padding[rank + d]
            for d, extra in enumerate(self.output_padding)
        )
        if len(outputs) != rank or min(outputs) < 1 or min((*self.strides, *self.dilation)) < 1:
            raise GraphError(
                f"strides {self.strides}, dilation {self.dilation}, padding {self.padding} and "
                f"output padding {self.output_padding} leave an output of {outputs}"
            )
        return output_type(self, inputs[0], form, outputs)


def lower_conv_transpose(
    op: ConvTranspose, inputs: Sequence[Tensor], name: str
) -> tuple[Tensor, ...]:
    """One stage for each phase of the output; all of them share the buffer ``name``."""
    form = op.weight(inputs[1].shape)
    data, weight = channels_last_operands(op, inputs, form, name)
    parts = transposed.conv_transpose(
        data,
        weight,
        op.strides,
        op.padding,
        op.dilation,
        op.groups,
        op.output_padding,
        buffer_order(op),
        f"{name}.split" if len(inputs) == 3 else name,
    )
    return with_bias(op, parts, inputs[2:], name)
