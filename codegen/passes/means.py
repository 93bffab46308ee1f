"""Means: a sum times 1/n is divided by n, which a float holds exactly; it does not hold 1/n.

    mean = sum * 0.001      ->      mean = sum / 1000

The rounding of 1/n moves every mean of n elements the same way.  Where elements lie far from 0 and
close together, what is left of them without their mean shows it.

A division costs more than a product, but not more than the additions before it where these are
many, nor than the passes over the elements that are less their mean: of equal elements nothing is
left then, if their sum is exact.  Powers of two stay, since they lose nothing.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from functools import partial
from typing import Final

from codegen.passes.rewrite import Nodes, map_body, map_expr
from codegen.passes.sums import float_sums
from sketch.lang.dtypes import is_float
from sketch.lang.expr import Binary, Const, Expr
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import Buffer, BufferLoad, LoopNest, Node, Store
from sketch.nest.walk import stores, walk_value

# A vector of quotients takes no longer than so many vectors of sums.
_LEAST_TERMS: Final = 64
# The mean of two elements is exact.
_LEAST_OF_DEVIATIONS: Final = 3
# All whole numbers up to here are float32.
_MOST_TERMS: Final = 1 << 24


def means(nest: LoopNest) -> LoopNest:
    """The nest with sums divided by numbers of terms."""
    sums = float_sums(nest)
    if not sums:
        return nest
    subtracted = _subtracted(nest)

    def rewritten(nodes: Nodes) -> Nodes:
        return reused([one(node) for node in nodes], nodes)

    def one(node: Node) -> Node:
        if not isinstance(node, Store):
            return map_body(node, rewritten)
        least = _LEAST_TERMS if subtracted.isdisjoint(node.targets) else _LEAST_OF_DEVIATIONS
        divided = partial(_mean, sums=sums, least=least)
        values = [map_expr(v, lambda leaf: leaf, divided) for v in node.values]
        changed = reused(values, node.values)
        return node if changed is node.values else replace(node, values=changed)

    return replace(nest, roots=rewritten(nest.roots))


def _subtracted(nest: LoopNest) -> frozenset[Buffer]:
    """Buffers of which an element is taken from another value."""
    return frozenset(
        node.rhs.buffer
        for store, _ in stores(nest.roots)
        for value in store.values
        for node in walk_value(value)
        if isinstance(node, Binary) and node.op == "sub" and isinstance(node.rhs, BufferLoad)
    )


def _mean(node: Expr, sums: Set[Buffer], least: int) -> Expr:
    match node:
        case Binary("mul", BufferLoad(buffer) as total, Const(value), dtype) | Binary(
            "mul", Const(value), BufferLoad(buffer) as total, dtype
        ) if buffer in sums and is_float(dtype):
            terms = _terms(float(value), least)
            return node if terms is None else Binary("div", total, Const(terms, dtype), dtype)
    return node


def _terms(factor: float, least: int) -> float | None:
    """The n for which ``factor`` is 1/n, rounded, if it has as many terms as ``least``."""
    if not 1 / _MOST_TERMS <= factor <= 1 / least:
        return None
    terms = round(1 / factor)
    exact = terms & (terms - 1) == 0
    return None if exact or 1.0 / terms != factor else float(terms)
