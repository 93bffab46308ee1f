"""Parallel loops: one linear range of iterations, cut into chunks of equal size."""

from __future__ import annotations

import math

from codegen.llvm.loops import Loops
from codegen.llvm.region import CHUNKS_A_THREAD
from codegen.llvm.scope import Dynamic
from codegen.passes.affine import loop_range
from codegen.passes.rewrite import Nodes
from sketch.nest.loopnest import Loop, LoopKind, LoopVar, Node, Predicate


def parallel_chain(root: Node) -> tuple[tuple[Loop, ...], Nodes]:
    """The perfectly nested parallel loops at the top of a root, and the innermost body."""
    chain: list[Loop] = []
    body: Nodes = (root,)
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].kind is LoopKind.PARALLEL:
        chain.append(body[0])
        body = body[0].body
    return tuple(chain), body


def chunk_count(chain: tuple[Loop, ...], threads: int) -> int:
    """Into how many chunks the iterations of the loops are cut: 1 where nothing is shared."""
    total = _iterations(chain)
    return 1 if threads == 1 else min(total, CHUNKS_A_THREAD * threads)


def emit_parallel(loops: Loops, chain: tuple[Loop, ...], body: Nodes, chunks: int) -> None:
    """One chunk, ``%chunk``: iterations ``total*chunk/chunks <= p < total*(chunk+1)/chunks``.

    The iteration number is taken apart into the loops' variables, the last loop fastest.

    Args:
        loops: emitter of loops.
        chain: parallel loops, the outermost first.
        body: what they contain.
        chunks: number of chunks.
    """
    writer, total = loops.writer, _iterations(chain)
    first, last = _bound(loops, "%chunk", total, chunks), "%chunk.end"
    writer.lines.append(f"  {last} = add i64 %chunk, 1")
    last = _bound(loops, last, total, chunks)
    linear = LoopVar("linear")
    loops.counted(
        linear,
        first,
        last,
        1,
        (0, total - 1),
        set(),
        lambda: _iteration(loops, chain, linear, body),
    )


def _iterations(chain: tuple[Loop, ...]) -> int:
    return math.prod(int(loop.extent) for loop in chain)


def _bound(loops: Loops, chunk: str, total: int, chunks: int) -> str:
    """The first iteration of a chunk."""
    if total == chunks:
        return chunk
    scaled = loops.writer.emit_free(f"mul i64 {chunk}, {total}")
    return loops.writer.emit_free(f"udiv i64 {scaled}, {chunks}")


def _iteration(loops: Loops, chain: tuple[Loop, ...], linear: LoopVar, body: Nodes) -> None:
    scope = loops.scope
    rest = scope.dynamic[linear].ref
    level = scope.dynamic[linear].level
    clips: list[Predicate] = []
    for position in range(len(chain) - 1, -1, -1):
        loop = chain[position]
        extent, stride = int(loop.extent), int(loop.stride)
        value = rest
        if position:
            value = scope.hoist(level, ("urem", loop.var), f"urem i64 {rest}, {extent}")
            rest = scope.hoist(level, ("udiv", loop.var), f"udiv i64 {rest}, {extent}")
        if stride != 1:
            value = scope.hoist(level, ("scaled", loop.var), f"mul nsw i64 {value}, {stride}")
        scope.dynamic[loop.var] = Dynamic(value, level, *loop_range(loop), stride, shared=True)
        clips.extend(loop.clip)
    scope.invalidate()
    loops.emit_clipped(clips, body)
    for loop in chain:
        del scope.dynamic[loop.var]
