"""Parallel loops: one linear range of iterations, split evenly over the team."""

from __future__ import annotations

from codegen.llvm.loops import Loops
from codegen.llvm.scope import Dynamic
from codegen.passes.affine import loop_range
from codegen.passes.rewrite import Nodes
from sketch.loopnest import Loop, LoopKind, LoopVar, Node, Predicate


def parallel_chain(root: Node) -> tuple[tuple[Loop, ...], Nodes]:
    """The perfectly nested parallel loops at the top of a root, and the innermost body."""
    chain: list[Loop] = []
    body: Nodes = (root,)
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].kind is LoopKind.PARALLEL:
        chain.append(body[0])
        body = body[0].body
    return tuple(chain), body


def emit_parallel(loops: Loops, chain: tuple[Loop, ...], body: Nodes) -> None:
    """The share of one thread: iterations ``total*id/team <= p < total*(id+1)/team``.

    The iteration number is taken apart into the loops' variables, the last loop fastest.
    """
    writer = loops.writer
    total = 1
    for loop in chain:
        total *= int(loop.extent)
    writer.declare("omp_get_thread_num", "i32 {}()")
    writer.declare("omp_get_num_threads", "i32 {}()")
    identity = writer.emit_free("call i32 @omp_get_thread_num()")
    team = writer.emit_free("call i32 @omp_get_num_threads()")
    identity = writer.emit_free(f"zext i32 {identity} to i64")
    team = writer.emit_free(f"zext i32 {team} to i64")
    scaled = writer.emit_free(f"mul i64 {identity}, {total}")
    first = writer.emit_free(f"udiv i64 {scaled}, {team}")
    following = writer.emit_free(f"add i64 {scaled}, {total}")
    last = writer.emit_free(f"udiv i64 {following}, {team}")
    some = writer.emit_free(f"icmp slt i64 {first}, {last}")
    linear = LoopVar("linear")
    with loops.flow.when(some):
        loops.counted(
            linear,
            first,
            last,
            1,
            (0, total - 1),
            set(),
            lambda: _iteration(loops, chain, linear, body),
        )


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
        scope.dynamic[loop.var] = Dynamic(value, level, *loop_range(loop))
        clips.extend(loop.clip)
    scope.invalidate()
    loops.emit_clipped(clips, body)
    for loop in chain:
        del scope.dynamic[loop.var]
