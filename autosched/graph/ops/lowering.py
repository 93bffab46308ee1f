"""The table: which call of ``sketch.operators`` computes each graph operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from autosched.graph.ops.activation import Activation
from autosched.graph.ops.base import Op, TensorType
from autosched.graph.ops.columns import Fold, lower_fold
from autosched.graph.ops.conv import Conv, lower_conv
from autosched.graph.ops.conv_transpose import ConvTranspose, lower_conv_transpose
from autosched.graph.ops.einsum import Einsum, lower_einsum
from autosched.graph.ops.elementwise import (
    BinaryOp,
    CastOp,
    Clip,
    Identity,
    LeakyRelu,
    UnaryOp,
    Where,
    lower_elementwise,
    lower_identity,
)
from autosched.graph.ops.gather import (
    Gather,
    GatherElements,
    GatherPoints,
    OneHot,
    ReverseSequence,
    lower_gather,
    lower_gather_elements,
    lower_gather_points,
    lower_one_hot,
    lower_reverse_sequence,
)
from autosched.graph.ops.matmul import Dense, MatMul, lower_dense, lower_matmul
from autosched.graph.ops.movement import (
    Expand,
    Pick,
    Slice,
    Triangle,
    lower_expand,
    lower_pick,
    lower_slice,
    lower_triangle,
)
from autosched.graph.ops.narrow import NarrowMatMul, lower_narrow_matmul
from autosched.graph.ops.norm import (
    BatchNorm,
    GroupNormalize,
    LocalResponseNorm,
    Normalize,
    lower_batch_norm,
    lower_group_normalize,
    lower_local_response_norm,
    lower_normalize,
)
from autosched.graph.ops.pooling import (
    GlobalPool,
    Pool,
    lower_global_pool,
    lower_pool,
)
from autosched.graph.ops.reduce import (
    ArgReduce,
    Cumulative,
    ReduceOp,
    lower_arg_reduce,
    lower_cumulative,
    lower_reduce,
)
from autosched.graph.ops.resample import Resample, lower_resample
from autosched.graph.ops.scatter import SendAlong, lower_scatter
from autosched.graph.ops.shape import (
    Concat,
    Copy,
    Pad,
    Reshape,
    Transpose,
    lower_concat,
    lower_pad,
    lower_reshape,
    lower_transpose,
)
from autosched.graph.ops.softmax import Hardmax, Softmax, lower_hardmax, lower_softmax
from sketch.lang.dtypes import is_storage_float
from sketch.lang.expr import cast
from sketch.lang.tensor import Compute, Tensor, compute

Lowering = Callable[[Any, Sequence[Tensor], str], tuple[Tensor, ...]]
"""(operator, inputs, stage name) -> tensors; several where the stages share one buffer."""

LOWERINGS: Final[Mapping[type[Op], Lowering]] = {
    Conv: lower_conv,
    ConvTranspose: lower_conv_transpose,
    Dense: lower_dense,
    MatMul: lower_matmul,
    NarrowMatMul: lower_narrow_matmul,
    Einsum: lower_einsum,
    Pool: lower_pool,
    GlobalPool: lower_global_pool,
    BatchNorm: lower_batch_norm,
    GroupNormalize: lower_group_normalize,
    Normalize: lower_normalize,
    LocalResponseNorm: lower_local_response_norm,
    Softmax: lower_softmax,
    Hardmax: lower_hardmax,
    UnaryOp: lower_elementwise,
    Clip: lower_elementwise,
    LeakyRelu: lower_elementwise,
    CastOp: lower_elementwise,
    Identity: lower_elementwise,
    BinaryOp: lower_elementwise,
    Where: lower_elementwise,
    Activation: lower_elementwise,
    ReduceOp: lower_reduce,
    ArgReduce: lower_arg_reduce,
    Cumulative: lower_cumulative,
    Resample: lower_resample,
    Fold: lower_fold,
    Reshape: lower_reshape,
    Transpose: lower_transpose,
    Concat: lower_concat,
    Copy: lower_identity,
    Pad: lower_pad,
    Slice: lower_slice,
    Expand: lower_expand,
    Pick: lower_pick,
    Triangle: lower_triangle,
    Gather: lower_gather,
    GatherElements: lower_gather_elements,
    GatherPoints: lower_gather_points,
    SendAlong: lower_scatter,
    OneHot: lower_one_hot,
    ReverseSequence: lower_reverse_sequence,
}


def lower(op: Op, inputs: Sequence[Tensor], name: str) -> tuple[Tensor, ...]:
    """Express ``op`` on ``inputs``; its stages are called ``name`` or start with it.

    The result has the dtype that the operator declares: reductions of 16-bit floats, which are
    float32, are rounded by a stage of their own.
    """
    tensors = LOWERINGS[type(op)](op, inputs, name)
    if not any(is_storage_float(tensor.dtype) for tensor in inputs):
        return tensors
    dtype = op.infer([TensorType(tensor.shape, tensor.dtype) for tensor in inputs]).dtype
    return tuple(_stored(tensor, dtype, f"{name}_{dtype}") for tensor in tensors)


def _stored(tensor: Tensor, dtype: str, name: str) -> Tensor:
    """``tensor`` as ``dtype``; the new stage takes over the place in a shared buffer."""
    if tensor.dtype == dtype or not isinstance(tensor.op, Compute):
        return tensor
    store = tensor.op.store
    label, unrounded = name, tensor.op.name
    if (
        store is not None
    ):  # a stage alone may have the name of its buffer: the one that stores keeps it
        label, unrounded = tensor.op.name, f"{tensor.op.name}_{tensor.dtype}"
    plain = Tensor(replace(tensor.op, name=unrounded, store=None), tensor.output)
    stored: Tensor = compute(tensor.shape, lambda *axes: cast(plain[axes], dtype), label, store)
    return stored
