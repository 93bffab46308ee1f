"""The rounds of a copy take one line of memory of each row, then the next line of each row.

    cooperative row, piece: copy     ->     cooperative line, row, piece of a line: copy

A thread then has few rows, and reads several lines of each: they are at small distances, which fit
the copy instruction, where each row needs an address of its own.  A warp reads whole lines as
before.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.cuda.device import Binding, Cooperative, DeviceFunction, DeviceNode, Fetch, For, points
from codegen.cuda.rounds import parts_of
from codegen.gpu.alignment import LINE, WIDEST
from codegen.passes.rewrite import Values, substitute_expr, substitute_index, substitute_store
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import Affine, BufferLoad, LoopVar


def rounds_along_lines(function: DeviceFunction) -> DeviceFunction:
    """The function with such rounds where rows are whole lines, several each."""
    return replace(function, body=_nodes(function.body, function.block))


def _nodes(nodes: tuple[DeviceNode, ...], threads: int) -> tuple[DeviceNode, ...]:
    return tuple(_node(node, threads) for node in nodes)


def _node(node: DeviceNode, threads: int) -> DeviceNode:
    if isinstance(node, For):
        return replace(node, body=_nodes(node.body, threads))
    if not isinstance(node, Cooperative) or len(node.body) != 1 or not node.bindings:
        return node
    copy = node.body[0]
    return _in_lines(node, copy, threads) if isinstance(copy, Fetch) else node


def _in_lines(node: Cooperative, copy: Fetch, threads: int) -> Cooperative:
    row = node.bindings[-1]
    pieces, lines = LINE // WIDEST, row.extent * WIDEST // LINE
    whole = copy.count * size_of(copy.source.dtype) == WIDEST and row.extent == lines * pieces
    if not whole or lines < 2:
        return node
    line = Binding(LoopVar(f"{row.var.name}.line"), lines, pieces * row.stride)
    piece = Binding(row.var, pieces, row.stride)
    bindings = (line, *node.bindings[:-1], piece)
    # a swizzle's order is the same again some elements on
    period = int(copy.store.targets[0].period)
    if line.stride % period or not _walks(bindings, threads):
        return node
    values = {row.var: Affine(((line.var, 1), (row.var, 1)))}
    return Cooperative(bindings, (_substituted(copy, values),))


def _walks(bindings: tuple[Binding, ...], threads: int) -> bool:
    """Whether a thread takes several lines of a row, in whole rounds."""
    if points(bindings) % threads:
        return False
    parts = parts_of(bindings, threads, "")
    return parts is not None and parts[0].step > 0


def _substituted(copy: Fetch, values: Values) -> Fetch:
    source, condition = copy.source, copy.condition
    indices = tuple(substitute_index(index, values) for index in source.indices)
    return replace(
        copy,
        store=substitute_store(copy.store, values),
        source=BufferLoad(source.buffer, indices),
        condition=None if condition is None else substitute_expr(condition, values),
    )
