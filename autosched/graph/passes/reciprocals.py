"""Quotients by constants become products: a division takes as long as a dozen multiplications."""

from __future__ import annotations

from typing import Final

import numpy as np

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Array, Graph, Node
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp

_DTYPES: Final = ("float32", "float64")  # 16-bit reciprocals would round by much more
# Their relative errors are at most those of their arguments.
_NO_STEEPER: Final = (UnaryOp("erf"), UnaryOp("tanh"))


def multiply_by_reciprocals(graph: Graph) -> Graph:
    """``data / constant`` as ``data * (1 / constant)``.

    Where the reciprocals are exact, as those of powers of two, both are the same numbers.  Others
    are rounded: so only where all that reads the quotients makes nothing of another last digit.
    """
    builder = GraphBuilder.from_graph(graph)
    for node in graph.nodes:
        factors = _factors(graph, node)
        if factors is None:
            builder.copy(node, node.inputs)
            continue
        name = builder.constant(builder.unique(f"{node.inputs[1]}.reciprocal"), factors)
        builder.copy(node, (node.inputs[0], name), BinaryOp("mul"))
    return builder.finish(graph.results)


def _factors(graph: Graph, node: Node) -> Array | None:
    """The reciprocals of the constants that ``node`` divides by; None: let it divide."""
    if node.op != BinaryOp("div"):
        return None
    divisors = graph.constants.get(node.inputs[1])
    if divisors is None or str(divisors.dtype) not in _DTYPES:
        return None
    with np.errstate(all="ignore"):
        factors = np.asarray(np.reciprocal(divisors))
    if not (_are_normal(divisors) and _are_normal(factors)):
        return None
    exact = bool(np.all(np.abs(np.frexp(divisors)[0]) == 0.5))
    return factors if exact or _is_unseen(graph, node.output) else None


def _are_normal(numbers: Array) -> bool:
    """Whether numbers of a float dtype are neither 0 nor denormal, infinite or not a number."""
    kind, sizes = np.finfo(str(numbers.dtype)), np.abs(numbers)
    return bool(np.all((sizes >= kind.tiny) & (sizes <= kind.max)))


def _is_unseen(graph: Graph, name: str) -> bool:
    readers = graph.consumers.get(name, ())
    return name not in graph.result_values and all(node.op in _NO_STEEPER for node in readers)
