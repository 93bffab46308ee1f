"""The table: which form each graph operator has in ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from autosched.graph.ops.activation import Activation
from autosched.graph.ops.base import Op
from autosched.graph.ops.columns import Fold
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.conv_transpose import ConvTranspose
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import (
    BinaryOp,
    CastOp,
    Clip,
    Identity,
    LeakyRelu,
    UnaryOp,
    Where,
)
from autosched.graph.ops.gather import (
    Gather,
    GatherElements,
    GatherPoints,
    OneHot,
    ReverseSequence,
)
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.movement import Expand, Pick, Slice, Triangle
from autosched.graph.ops.narrow import NarrowMatMul
from autosched.graph.ops.norm import BatchNorm, GroupNormalize, LocalResponseNorm, Normalize
from autosched.graph.ops.pooling import GlobalPool, Pool
from autosched.graph.ops.reduce import ArgReduce, Cumulative, ReduceOp
from autosched.graph.ops.resample import Resample
from autosched.graph.ops.scatter import SendAlong
from autosched.graph.ops.shape import Concat, Copy, Pad, Reshape, Transpose
from autosched.graph.ops.softmax import Hardmax, Softmax
from autosched.onnx.export import (
    arithmetic,
    elementwise,
    indexing,
    movement,
    norm,
    pooling,
    products,
    reduction,
)
from autosched.onnx.export.terms import Form

FORMS: Final[Mapping[type[Op], Form]] = {
    Activation: elementwise.activation,
    ArgReduce: reduction.arg_reduce,
    BatchNorm: norm.batch_norm,
    BinaryOp: arithmetic.binary,
    CastOp: elementwise.cast_op,
    Clip: elementwise.clip,
    Concat: movement.concat,
    Conv: products.conv,
    ConvTranspose: products.conv_transpose,
    Copy: elementwise.identity,
    Cumulative: reduction.cumulative,
    Dense: products.dense,
    Einsum: products.einsum,
    Expand: movement.expand,
    Fold: movement.fold,
    Gather: indexing.gather,
    GatherElements: indexing.gather_elements,
    GatherPoints: indexing.gather_points,
    GlobalPool: pooling.global_pool,
    GroupNormalize: norm.group_normalize,
    Hardmax: reduction.hardmax,
    Identity: elementwise.identity,
    LeakyRelu: elementwise.leaky_relu,
    LocalResponseNorm: norm.local_response_norm,
    MatMul: products.matmul,
    NarrowMatMul: products.narrow_matmul,
    Normalize: norm.normalize,
    OneHot: indexing.one_hot,
    Pad: movement.pad,
    Pick: movement.pick,
    Pool: pooling.pool,
    ReduceOp: reduction.reduce_op,
    Resample: indexing.resample,
    Reshape: movement.reshape,
    ReverseSequence: indexing.reverse_sequence,
    SendAlong: indexing.send_along,
    Slice: movement.slice_op,
    Softmax: reduction.softmax,
    Transpose: movement.transpose,
    Triangle: movement.triangle,
    UnaryOp: elementwise.unary,
    Where: elementwise.where,
}
"""Without loops and pieces of other models, which are more than operators."""
