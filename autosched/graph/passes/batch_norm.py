"""Batch-norm with constant statistics: into the layer before it, or into a scale and a shift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Array, Graph, Node
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.matmul import Dense
from autosched.graph.ops.norm import BatchNorm
from sketch.lang.dtypes import numpy_dtype

Float64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Affine:
    """``x * scale + shift`` per channel, in float64 ``[c]``."""

    scale: Float64
    shift: Float64


@dataclass(frozen=True, slots=True)
class _Folded:
    """A batch-norm, and the parameters of the layer before it that make up for it."""

    norm: Node
    weight: Array
    bias: Array


def fold_batch_norm(graph: Graph) -> Graph:
    """Fold batch-norms into the weights and bias of the conv or dense layer before them.

    A layer qualifies when its parameters are constant and nothing else reads its output.  Other
    batch-norms of constant statistics become a multiplication and an addition.  All arithmetic on
    parameters is in float64; where a new parameter is not finite, such as with a variance of
    -epsilon, the batch-norm stays as it is.
    """
    folded = {
        node.inputs[0]: result
        for node in graph.nodes
        if isinstance(node.op, BatchNorm) and (result := _folded(graph, node)) is not None
    }
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        if node.output in folded:
            _emit_folded(builder, node, folded[node.output])
        elif isinstance(node.op, BatchNorm) and _affine(graph, node) is not None:
            if node.inputs[0] not in folded:
                _emit_scale_shift(builder, graph, node)
        else:
            builder.copy(node, node.inputs)
    return builder.finish(graph.results)


def _folded(graph: Graph, norm: Node) -> _Folded | None:
    """The batch-norm with the new parameters of its producer; None if it cannot be folded."""
    data = norm.inputs[0]
    layer, affine = graph.producers.get(data), _affine(graph, norm)
    if (
        layer is None
        or affine is None
        or not isinstance(layer.op, Conv | Dense)
        or any(name not in graph.constants for name in layer.inputs[1:])
        or graph.consumers[data] != (norm,)
        or data in graph.result_values
        or not _same_channels(layer, norm)
    ):
        return None
    weight = _scaled_weight(layer, graph.constants, affine.scale)
    bias = affine.shift
    if len(layer.inputs) == 3:
        bias = bias + graph.constants[layer.inputs[2]].astype(np.float64) * affine.scale
    with np.errstate(over="ignore"):
        folded = _Folded(norm, weight, bias.astype(weight.dtype))
    return folded if _is_finite(folded.weight) and _is_finite(folded.bias) else None


def _is_finite(values: Array) -> bool:
    return bool(np.isfinite(values).all())


def _same_channels(producer: Node, norm: Node) -> bool:
    assert isinstance(norm.op, BatchNorm)
    return not isinstance(producer.op, Conv) or producer.op.layout == norm.op.layout


def _affine(graph: Graph, norm: Node) -> _Affine | None:
    """Scale and shift of a batch-norm; None unless they are constant and finite numbers."""
    assert isinstance(norm.op, BatchNorm)
    if any(name not in graph.constants for name in norm.inputs[1:]):
        return None
    gamma, beta, mean, variance = (
        graph.constants[name].astype(np.float64) for name in norm.inputs[1:]
    )
    dtype = numpy_dtype(graph.types[norm.inputs[0]].dtype)
    with np.errstate(all="ignore"):
        scale = gamma / np.sqrt(variance + norm.op.epsilon)
        affine = _Affine(scale, beta - mean * scale)
        stored = [part.astype(dtype) for part in (affine.scale, affine.shift)]
    return affine if all(map(_is_finite, stored)) else None


def _emit_folded(builder: GraphBuilder, layer: Node, folded: _Folded) -> None:
    names = (
        builder.constant(builder.unique(f"{layer.name}.weight"), folded.weight),
        builder.constant(builder.unique(f"{layer.name}.bias"), folded.bias),
    )
    norm = folded.norm
    origins = (*layer.origins, *norm.origins)
    builder.add(layer.op, (layer.inputs[0], *names), norm.output, layer.name, origins)


def _scaled_weight(layer: Node, constants: Mapping[str, Array], scale: Float64) -> Array:
    stored = constants[layer.inputs[1]]
    weight = stored.astype(np.float64)
    with np.errstate(all="ignore"):
        if isinstance(layer.op, Conv):
            op, form = layer.op, layer.op.weight(weight.shape)
            return form.scaled(weight, scale, op.layout, op.transposed).astype(stored.dtype)
        return (weight * scale).astype(stored.dtype)


def _emit_scale_shift(builder: GraphBuilder, graph: Graph, norm: Node) -> None:
    assert isinstance(norm.op, BatchNorm)
    affine = _affine(graph, norm)
    assert affine is not None
    kind = graph.types[norm.inputs[0]]
    rank, dtype = len(kind.shape), numpy_dtype(kind.dtype)
    shape = [1] * rank
    shape[norm.op.channel_axis(rank)] = -1
    scale, shift = (
        builder.constant(builder.unique(f"{norm.name}.{role}"), value.astype(dtype).reshape(shape))
        for role, value in (("scale", affine.scale), ("shift", affine.shift))
    )
    scaled = builder.add(
        BinaryOp("mul"),
        (norm.inputs[0], scale),
        builder.unique(f"{norm.output}.scaled"),
        origins=norm.origins,
    )
    builder.add(BinaryOp("add"), (scaled, shift), norm.output, norm.name, norm.origins)
