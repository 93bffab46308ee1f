"""Weights of convolutions: what their dimensions mean, in the model's layout and in ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import Layout, Shape


@dataclass(frozen=True, slots=True)
class ConvWeight:
    """Sizes of a weight.

    Layout NCHW is the model's: ``[oc, ic/groups, *kernel]``, or ``[ic, oc/groups, *kernel]`` where
    ``transposed``.  Layout NHWC is ours, so that vectors run over output channels and each group's
    part is in one piece:

        one group        [*kernel, ic, oc]
        depthwise        [*kernel, oc/groups, ic]      (one input channel a group)
        other groups     [groups, *kernel, ic/groups, oc/groups]

    Attributes:
        groups: number of groups of channels.
        inputs: input channels of a group.
        outputs: output channels of a group.
        kernel: extents of the kernel.
    """

    groups: int
    inputs: int
    outputs: int
    kernel: Shape

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.inputs == 1

    @property
    def is_plain(self) -> bool:
        """Whether output channels are one axis of the stage: one group, or depthwise 1 to 1."""
        return self.groups == 1 or (self.is_depthwise and self.outputs == 1)

    def split_shape(self, transposed: bool) -> Shape:
        """The model's weight with the dimensions that our order needs as dimensions."""
        if self.groups == 1 or self.is_depthwise:
            pair = (self.inputs if self.groups == 1 else self.groups, self.outputs)
            return (*(pair if transposed or self.is_depthwise else pair[::-1]), *self.kernel)
        pair = (self.inputs, self.outputs)
        return (self.groups, *(pair if transposed else pair[::-1]), *self.kernel)

    def permutation(self, transposed: bool) -> tuple[int, ...]:
        """How to transpose ``split_shape`` to our order."""
        first = 0 if self.groups == 1 or self.is_depthwise else 1
        kernel = range(first + 2, first + 2 + len(self.kernel))
        keep = transposed and not self.is_depthwise
        channels = (first, first + 1) if keep else (first + 1, first)
        return (*range(first), *kernel, *channels)

    def scaled(
        self, weight: NDArray[Any], scale: NDArray[Any], layout: Layout, transposed: bool
    ) -> NDArray[Any]:
        """``weight`` with one factor for each output channel.

        Args:
            weight: in the operator's layout.
            scale: ``[oc]``.
            layout: of the weight.
            transposed: whether the convolution is transposed.
        """
        per_group = scale.reshape(self.groups, self.outputs)
        if layout == "NCHW" and not transposed:
            return weight * scale.reshape(-1, 1, *(1 for _ in self.kernel))
        if layout == "NCHW":
            rest = (1,) * len(self.kernel)
            split = weight.reshape(self.groups, self.inputs, self.outputs, *self.kernel)
            scaled = split * per_group.reshape(self.groups, 1, self.outputs, *rest)
            return scaled.reshape(weight.shape)
        if self.groups == 1:
            return weight * scale
        if self.is_depthwise:
            return weight * per_group.T
        return weight * np.expand_dims(per_group, tuple(range(1, len(self.kernel) + 2)))


def conv_weight(
    shape: Shape, spatial: int, groups: int, layout: Layout, transposed: bool
) -> ConvWeight:
    """Sizes of a weight.

    Args:
        shape: of the weight.
        spatial: number of spatial dimensions of the data.
        groups: of the convolution.
        layout: of the weight.
        transposed: whether the convolution is transposed.

    Raises:
        GraphError: its shape fits no convolution of ``groups`` groups.
    """
    form = None
    if groups >= 1 and len(shape) >= 3:
        if layout == "NHWC":
            form = _read_ours(shape, groups, spatial)
        else:
            form = _read_transposed(shape, groups) if transposed else _read_forward(shape, groups)
    if form is None or len(form.kernel) != spatial:
        raise GraphError(
            f"weight {shape} fits no convolution over {spatial} dimensions in {groups} groups, "
            f"layout {layout}"
        )
    return form


def _read_forward(shape: Shape, groups: int) -> ConvWeight | None:
    outputs, inputs, *kernel = shape
    fits = outputs % groups == 0
    return ConvWeight(groups, inputs, outputs // groups, tuple(kernel)) if fits else None


def _read_transposed(shape: Shape, groups: int) -> ConvWeight | None:
    inputs, outputs, *kernel = shape
    fits = inputs % groups == 0
    return ConvWeight(groups, inputs // groups, outputs, tuple(kernel)) if fits else None


def _read_ours(shape: Shape, groups: int, spatial: int) -> ConvWeight | None:
    *rest, inputs, outputs = shape
    if len(rest) == spatial and groups > 1:
        return ConvWeight(groups, 1, inputs, tuple(rest)) if outputs == groups else None
    if groups > 1:
        first, *kernel = rest
        return ConvWeight(groups, inputs, outputs, tuple(kernel)) if first == groups else None
    return ConvWeight(1, inputs, outputs, tuple(rest))
