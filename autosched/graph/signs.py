"""What is known of the signs of values before they are computed."""

from __future__ import annotations

import numpy as np

from autosched.graph.ir import Graph, Node
from autosched.graph.ops.base import Op
from autosched.graph.ops.elementwise import BinaryOp, Clip, UnaryOp
from autosched.graph.ops.pooling import GlobalPool, Pool
from autosched.graph.ops.shape import Concat, Pad, Reshape, Transpose
from autosched.graph.ops.softmax import Softmax


def never_negative(graph: Graph, name: str) -> bool:
    """Whether the definition of a value says that no element is negative; NaN may be."""
    known: dict[str, bool] = {}

    def look(value: str) -> bool:
        if value in graph.constants:
            return bool((np.asarray(graph.constants[value], np.float64) >= 0).all())
        return known.get(value, False)

    for node in _needed(graph, name):
        known[node.output] = _is_positive(node.op) or (
            _keeps_signs(node.op) and all(look(value) for value in node.inputs)
        )
    return look(name)


def _needed(graph: Graph, name: str) -> list[Node]:
    """The nodes whose signs decide that of a value, first ones first."""
    found, pending = dict[str, Node](), [name]
    while pending:
        node = graph.producers.get(pending.pop())
        if node is None or node.output in found:
            continue
        found[node.output] = node
        if _keeps_signs(node.op) and not _is_positive(node.op):
            pending.extend(node.inputs)
    return [node for node in graph.nodes if node.output in found]


def _is_positive(op: Op) -> bool:
    match op:
        case UnaryOp("relu" | "sigmoid" | "exp" | "abs" | "sqrt") | Softmax(log=False):
            return True
        case Clip(low=low):
            return low is not None and low >= 0
        case _:
            return False


def _keeps_signs(op: Op) -> bool:
    """Whether what it makes of numbers that are not negative are such."""
    match op:
        case BinaryOp("add" | "mul" | "max" | "min") | Pool() | GlobalPool():
            return True
        case Reshape() | Transpose() | Concat():
            return True
        case Pad(value=value):
            return value >= 0
        case _:
            return False
