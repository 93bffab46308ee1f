"""Means: a sum times 1/n is divided by n, which a float holds exactly; it does not hold 1/n.

    mean = sum * 0.001      ->      mean = sum / 1000

The rounding of 1/n moves every mean of n elements the same way.  Where elements lie far from 0 and
close together, what is left of them without their mean shows it.

A division costs more than a product, but not more than the additions before it where these are
many; powers of two stay, since they lose nothing.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Final

from codegen.passes.rewrite import Nodes, map_body, map_expr
from codegen.passes.sums import float_sums
from sketch.lang.dtypes import is_float
from sketch.lang.expr import Binary, Const, Expr
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import Buffer, BufferLoad, LoopNest, Node, Store

# A vector of quotients takes no longer than so many vectors of sums.
_LEAST_TERMS: Final = 64
# All whole numbers up to here are float32.
_MOST_TERMS: Final = 1 << 24


def means(nest: LoopNest) -> LoopNest:
    """The nest with sums divided by numbers of terms."""
    sums = float_sums(nest)
    return nest if not sums else replace(nest, roots=_nodes(nest.roots, sums))


def _nodes(nodes: Nodes, sums: Set[Buffer]) -> Nodes:
    return reused([_node(node, sums) for node in nodes], nodes)


def _node(node: Node, sums: Set[Buffer]) -> Node:
    if not isinstance(node, Store):
        return map_body(node, lambda body: _nodes(body, sums))
    values = [map_expr(v, lambda leaf: leaf, lambda n: _mean(n, sums)) for v in node.values]
    means = reused(values, node.values)
    return node if means is node.values else replace(node, values=means)


def _mean(node: Expr, sums: Set[Buffer]) -> Expr:
    match node:
        case Binary("mul", BufferLoad(buffer) as total, Const(value), dtype) | Binary(
            "mul", Const(value), BufferLoad(buffer) as total, dtype
        ) if buffer in sums and is_float(dtype):
            terms = _terms(float(value))
            return node if terms is None else Binary("div", total, Const(terms, dtype), dtype)
    return node


def _terms(factor: float) -> float | None:
    """The n for which ``factor`` is 1/n, rounded, if a division by it pays."""
    if not 1 / _MOST_TERMS <= factor <= 1 / _LEAST_TERMS:
        return None
    terms = round(1 / factor)
    exact = terms & (terms - 1) == 0
    return None if exact or 1.0 / terms != factor else float(terms)
