"""Remove nodes that do nothing, and write equal things in one way.

* identity, cast to the same dtype, reshape to the same shape, padding by nothing, ... vanish;
* a chain of reshapes becomes one; a transpose that moves only extents of 1 becomes a reshape;
* ``clip(x, 0, inf)`` becomes relu.
"""

from __future__ import annotations

from math import inf

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Graph, Result
from autosched.graph.ops.base import Op, TensorType
from autosched.graph.ops.elementwise import CastOp, Clip, Identity, UnaryOp
from autosched.graph.ops.movement import Expand, Slice
from autosched.graph.ops.shape import Concat, Pad, Reshape, Transpose


def clean_up(graph: Graph) -> Graph:
    """``graph`` with the rewrites above; values keep their names, some vanish."""
    builder = GraphBuilder.from_graph(graph)
    renamed: dict[str, str] = {}
    reshaped: dict[str, str] = {}  # output of a reshape -> what it reshapes
    for node in graph.nodes:
        inputs = tuple(renamed.get(name, name) for name in node.inputs)
        if node.op.on_host:
            builder.copy(node, inputs)
            continue
        kind = graph.types[inputs[0]]
        if is_no_op(node.op, kind, graph.types[node.output]):
            renamed[node.output] = inputs[0]
            continue
        op = _simpler(node.op, kind)
        if isinstance(op, Reshape):
            source = reshaped.get(inputs[0], inputs[0])
            if graph.types[source].shape == op.shape:
                renamed[node.output] = source
                continue
            reshaped[node.output] = source
            inputs = (source,)
        builder.copy(node, inputs, op)
    return builder.finish(
        [Result(result.name, renamed.get(result.value, result.value)) for result in graph.results]
    )


def is_no_op(op: Op, source: TensorType, target: TensorType) -> bool:
    """Whether the output of ``op`` is its first input, bit for bit."""
    match op:
        case Identity():
            return True
        case CastOp() | Reshape() | Expand():
            return source == target
        case Transpose(permutation):
            return permutation == tuple(range(len(permutation)))
        case Pad(low, high, _):
            return not any((*low, *high))
        case Clip(low, high):
            return (low is None or low == -inf) and (high is None or high == inf)
        case Slice(_, _, step):
            return source == target and min(step, default=1) > 0
        case Concat():
            return source == target  # extents are positive, so there is one operand
        case _:
            return False


def keeps_memory_order(permutation: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether transposing ``shape`` leaves its elements in place (only extents of 1 move)."""
    moved = [axis for axis in permutation if shape[axis] > 1]
    return moved == sorted(moved)


def _simpler(op: Op, source: TensorType) -> Op:
    match op:
        case Transpose(permutation) if keeps_memory_order(permutation, source.shape):
            return Reshape(tuple(source.shape[axis] for axis in permutation))
        case Clip(low, high) if low == 0 and (high is None or high == inf):
            return UnaryOp("relu")
        case _:
            return op
