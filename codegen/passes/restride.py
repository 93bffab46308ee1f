"""Restride: an argument takes its place inside a larger array.

    Y: [8, 8, 16], strides (128, 16, 1)   ->   Y: [8, 8, 16], strides (384, 48, 1)

Where a value is one part of a concatenation, its kernel writes into the whole: rows lie as far
apart as the whole's.  Where the part begins is up to the pointer that the kernel is given.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from codegen.errors import CodegenError
from codegen.passes.rewrite import Nodes, map_body, map_expr
from sketch.lang.expr import Expr
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import (
    Affine,
    Buffer,
    BufferLoad,
    Index,
    LoopNest,
    Node,
    Quasi,
    Store,
)


def restride(nest: LoopNest, name: str, strides: tuple[int, ...]) -> LoopNest:
    """``nest`` with other strides (in elements) of the argument ``name``.

    Raises CodegenError unless there is such an argument, with as many dimensions.
    """
    old = next((buffer for buffer in nest.arguments if buffer.name == name), None)
    if old is None or len(old.strides) != len(strides):
        raise CodegenError(f"no argument {name!r} of {len(strides)} dimensions", nest.name)
    span = 1 + sum((int(e) - 1) * s for e, s in zip(old.shape, strides, strict=True))
    new = replace(old, strides=strides, size=span)
    exchange = _Exchange(old, new)
    arguments = tuple(new if buffer is old else buffer for buffer in nest.arguments)
    return replace(nest, arguments=arguments, roots=exchange.nodes(nest.roots))


def loosen(nest: LoopNest, names: Collection[str]) -> LoopNest:
    """``nest`` with arguments that may start at any element, wherever a caller's pointer points."""
    for old in nest.arguments:
        if old.name in names:
            new = replace(old, loose=True)
            arguments = tuple(new if buffer is old else buffer for buffer in nest.arguments)
            roots = _Exchange(old, new).nodes(nest.roots)
            nest = replace(nest, arguments=arguments, roots=roots)
    return nest


class _Exchange:
    """Rewrites every access of one buffer to another."""

    def __init__(self, old: Buffer, new: Buffer) -> None:
        self._old = old
        self._new = new

    def nodes(self, nodes: Nodes) -> Nodes:
        return tuple(self._node(node) for node in nodes)

    def _node(self, node: Node) -> Node:
        if not isinstance(node, Store):
            return map_body(node, self.nodes)
        targets = tuple(self._new if t is self._old else t for t in node.targets)
        indices = tuple(self._index(index) for index in node.indices)
        values = tuple(map_expr(value, self._leaf) for value in node.values)
        return replace(node, targets=targets, indices=indices, values=values)

    def _leaf(self, expr: Expr) -> Expr:
        if not isinstance(expr, BufferLoad):
            return expr
        indices = reused([self._index(index) for index in expr.indices], expr.indices)
        buffer = self._new if expr.buffer is self._old else expr.buffer
        same = buffer is expr.buffer and indices is expr.indices
        return expr if same else BufferLoad(buffer, indices)

    def _index(self, index: Index) -> Index:
        """Indices may be read from the buffer, too."""
        if isinstance(index, Affine):
            return index
        expr = map_expr(index.expr, self._leaf)
        return index if expr is index.expr else Quasi(expr, index.low, index.high)
