"""A number that multiplies the larger operand of a product multiplies the smaller one instead, or
the product.

Attention is exported with the root of its scale on queries and on keys.  Of a decoder the keys are
a whole cache, the queries one row: scaling the keys would read and write the cache once more.
Where the smaller operand is only moved before, as heads are to the front, its number would have a
kernel of its own; the product is scaled where it is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Array, Graph, Node
from autosched.graph.ops.base import Pattern
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.shape import Reshape
from sketch.lang.dtypes import STORAGE_FLOATS, is_float


def move_scales(graph: Graph) -> Graph:
    """``lhs @ (rhs * number)`` as ``(lhs * number) @ rhs`` where ``rhs`` is larger, and vice versa;
    as ``(lhs @ rhs) * number`` where ``lhs`` is a transpose or a slice.

    Operands of equal size: where both have a number, both go to the first.  16-bit values keep
    their numbers, which may be there to keep products in range; constants are scaled already.
    """
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        sides = _sides(graph, node)
        if sides is None:
            builder.copy(node, node.inputs)
            continue
        if _is_moved(graph, sides, node):
            _scale_product(builder, graph, node)
            continue
        smaller, larger = sides
        inputs = list(node.inputs)
        kept, moved = (_scaled(graph, inputs[side]) for side in sides)
        inputs[larger] = moved.data
        name = builder.unique(f"{inputs[smaller]}.scaled")
        factor = builder.constant(builder.unique(f"{name}.number"), _product(kept, moved))
        origins = (*kept.origins, *moved.origins)
        builder.add(BinaryOp("mul"), (kept.data, factor), name, name, origins)
        inputs[smaller] = name
        builder.copy(node, inputs)
    return builder.finish(graph.results)


def _scale_product(builder: GraphBuilder, graph: Graph, node: Node) -> None:
    """Emit ``node`` of operands without their numbers, and what multiplies it by these."""
    operands = [_scaled(graph, name) for name in node.inputs]
    name = builder.unique(f"{node.output}.unscaled")
    builder.add(node.op, [each.data for each in operands], name, node.name, node.origins)
    factor = builder.constant(builder.unique(f"{node.name}.number"), _product(*operands))
    origins = tuple(origin for each in operands for origin in each.origins)
    builder.add(BinaryOp("mul"), (name, factor), node.output, f"{node.name}.scale", origins)


def _is_moved(graph: Graph, sides: tuple[int, int], node: Node) -> bool:
    """Whether what would be multiplied is a transpose, a slice or the like, in whatever shape."""
    kept, moved = (_scaled(graph, node.inputs[side]) for side in sides)
    source = graph.producers.get(kept.data if _gains(graph, node, sides) else moved.data)
    while source is not None and isinstance(source.op, Reshape):
        source = graph.producers.get(source.inputs[0])
    return source is not None and source.op.pattern is Pattern.INJECTIVE


@dataclass(frozen=True, slots=True)
class _Multiple:
    """``data`` times ``number``, an array without dimensions; the layers that say so."""

    data: str
    number: Array
    origins: tuple[str, ...] = ()


def _sides(graph: Graph, node: Node) -> tuple[int, int] | None:
    """Positions of the operand to scale and of that whose number it takes; None: leave both."""
    if not isinstance(node.op, MatMul | Einsum) or len(node.inputs) != 2:
        return None
    kinds = [graph.types[name] for name in node.inputs]
    wide = is_float(kinds[0].dtype) and kinds[0].dtype not in STORAGE_FLOATS
    if not wide or any(name in graph.constants for name in node.inputs):
        return None
    for sides in ((1, 0), (0, 1)) if kinds[0].size > kinds[1].size else ((0, 1), (1, 0)):
        kept, moved = (_scaled(graph, node.inputs[side]) for side in sides)
        if moved.origins and _is_normal(_product(kept, moved)):
            known = _gains(graph, node, sides) or _is_moved(graph, sides, node)
            return sides if known else None
    return None


def _gains(graph: Graph, node: Node, sides: tuple[int, int]) -> bool:
    """Whether the first of the ``sides`` takes the number of the second."""
    kept, moved = (graph.types[node.inputs[side]].size for side in sides)
    return kept < moved or (kept == moved and bool(_scaled(graph, node.inputs[sides[0]]).origins))


def _product(kept: _Multiple, moved: _Multiple) -> Array:
    return np.asarray(np.multiply(kept.number, moved.number))


def _is_normal(number: Array) -> bool:
    """Whether a number of a float dtype is neither 0 nor denormal, infinite or not a number."""
    least = float(np.finfo(str(number.dtype)).tiny)
    return least <= abs(float(number)) < inf


def _scaled(graph: Graph, name: str) -> _Multiple:
    """What ``name`` is a multiple of; once itself where others read it too and need it anyway."""
    node = graph.producers.get(name)
    once = _Multiple(name, np.ones((), graph.types[name].dtype))
    if node is None or node.op != BinaryOp("mul") or len(graph.consumers[name]) > 1:
        return once
    if name in graph.result_values:
        return once
    for data, number in (node.inputs, node.inputs[::-1]):
        array = graph.constants.get(number)
        whole = graph.types[data].shape == graph.types[name].shape
        if array is not None and array.size == 1 and whole:
            return _Multiple(data, array.reshape(()), node.origins)
    return once
