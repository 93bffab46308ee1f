"""The table: which call of ``sketch.operators`` computes each graph operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from autosched.graph.ops.base import Op
from autosched.graph.ops.conv import Conv2d, lower_conv2d
from autosched.graph.ops.elementwise import (
    Binary,
    Cast,
    Clip,
    Identity,
    LeakyRelu,
    Unary,
    lower_binary,
    lower_cast,
    lower_clip,
    lower_identity,
    lower_leaky_relu,
    lower_unary,
)
from autosched.graph.ops.matmul import Dense, MatMul, lower_dense, lower_matmul
from autosched.graph.ops.norm import BatchNorm, Softmax, lower_batch_norm, lower_softmax
from autosched.graph.ops.pooling import (
    GlobalPool2d,
    Pool2d,
    lower_global_pool2d,
    lower_pool2d,
)
from autosched.graph.ops.reduce import Reduce, lower_reduce
from autosched.graph.ops.shape import (
    Concat,
    Pad,
    Reshape,
    Transpose,
    lower_concat,
    lower_pad,
    lower_reshape,
    lower_transpose,
)
from sketch.tensor import Tensor

Lowering = Callable[[Any, Sequence[Tensor], str], tuple[Tensor, ...]]
"""(operator, inputs, stage name) -> tensors; several where the stages share one buffer."""

LOWERINGS: Final[Mapping[type[Op], Lowering]] = {
    Conv2d: lower_conv2d,
    Dense: lower_dense,
    MatMul: lower_matmul,
    Pool2d: lower_pool2d,
    GlobalPool2d: lower_global_pool2d,
    BatchNorm: lower_batch_norm,
    Softmax: lower_softmax,
    Unary: lower_unary,
    Clip: lower_clip,
    LeakyRelu: lower_leaky_relu,
    Cast: lower_cast,
    Identity: lower_identity,
    Binary: lower_binary,
    Reduce: lower_reduce,
    Reshape: lower_reshape,
    Transpose: lower_transpose,
    Concat: lower_concat,
    Pad: lower_pad,
}


def lower(op: Op, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """Express ``op`` on ``inputs``; its stages are called ``name`` or start with it."""
    return LOWERINGS[type(op)](op, inputs, name)
