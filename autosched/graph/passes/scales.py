"""A number that multiplies the larger operand of a product multiplies the smaller one instead.

Attention is exported with the root of its scale on queries and on keys.  Of a decoder the keys are
a whole cache, the queries one row: scaling the keys would read and write the cache once more.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Array, Graph, Node
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.matmul import MatMul
from sketch.lang.dtypes import STORAGE_FLOATS, is_float


def move_scales(graph: Graph) -> Graph:
    """``lhs @ (rhs * number)`` as ``(lhs * number) @ rhs`` where ``rhs`` is larger, and vice versa.

    Operands of equal size: where both have a number, both go to the first.  16-bit values keep
    their numbers, which may be there to keep products in range; constants are scaled already.
    """
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        sides = _sides(graph, node)
        if sides is None:
            builder.copy(node, node.inputs)
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
    sides = (1, 0) if kinds[0].size > kinds[1].size else (0, 1)
    kept, moved = (_scaled(graph, node.inputs[side]) for side in sides)
    gains = kinds[0].size != kinds[1].size or kept.origins
    return sides if moved.origins and gains and _is_normal(_product(kept, moved)) else None


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
