"""Roll copies: an unrolled loop whose statements have all that they access in memory is a loop.

    for r in 0..7 unrolled:                         for r in 0..7:
      for v in 0..3 unrolled: for lanes:              for v in 0..3 unrolled: for lanes:
        out[o+r, v] = max(sum[r, v] + b[v], 0)  ->      out[o+r, v] = max(sum[r, v] + b[v], 0)
            if o+r < N                                      if o+r < N

What keeps sums in registers has to be straight-line code.  What takes them from memory is as fast
in a loop whose trips do several things, and LLVM has a fraction of the code to work on; a predicate
on the rows then clips the loop, where it would ask for one more copy of everything.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from codegen.passes.rewrite import Nodes, instructions, is_dynamic, map_body
from codegen.passes.tiles import is_register_tile
from sketch.lang.expr import Expr
from sketch.lang.rewrite import reused
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Buffer,
    BufferLoad,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Node,
    Store,
)
from sketch.nest.walk import (
    accesses,
    free_values,
    index_variables,
    store_loads,
    value_operands,
    walk,
    walk_value,
)
from sketch.target.target import Target

MOST_TRIP: Final = 48  # instructions; loops inside of a longer trip are rolled up, too


def roll_copies(nest: LoopNest, target: Target) -> LoopNest:
    """The nest in which copies of what is in memory anyway are trips of loops."""
    return replace(nest, roots=_rolled(nest.roots, target, frozenset()))


def _rolled(nodes: Nodes, target: Target, tiles: frozenset[Buffer]) -> Nodes:
    """``tiles``: buffers around ``nodes`` that will be registers."""
    return reused([_rolled_node(node, target, tiles) for node in nodes], nodes)


def _rolled_node(node: Node, target: Target, tiles: frozenset[Buffer]) -> Node:
    if isinstance(node, Allocate) and is_register_tile(node, target):
        tiles |= {node.buffer}
    if isinstance(node, Loop) and not is_dynamic(node):
        return _with_trips(node) if _is_copies(node, tiles) else node
    return map_body(node, lambda body: _rolled(body, target, tiles))


def _is_copies(loop: Loop, tiles: frozenset[Buffer]) -> bool:
    """Whether a nest is straight-line code and vectors alone, of statements on memory."""
    for node in walk((loop,)):
        if isinstance(node, Loop):
            if is_dynamic(node) or node.axis_kind != "spatial" or node.clip:
                return False
        elif not isinstance(node, Store) or not _is_in_memory(node, tiles):
            return False
    return True


def _is_in_memory(store: Store, tiles: frozenset[Buffer]) -> bool:
    """Whether no copy of a statement has more to share with another than what it reads once.

    Elements of one buffer at several places may be those that the next copy reads; sums in
    registers are known by their copy alone, and so are values of loop variables.
    """
    read = [load.buffer for load in store_loads(store)]
    if store.reducer is not None or len(set(read)) < len(read):
        return False
    if not tiles.isdisjoint((*store.targets, *read)):
        return False
    affine = all(isinstance(i, Affine) for _, indices in accesses(store) for i in indices)
    return affine and not any(True for value in store.values for _ in free_values(value))


def _with_trips(loop: Loop) -> Loop:
    """Loops from outside on become serial while a trip has several statements."""
    if loop.kind is not LoopKind.UNROLLED or not _has_copies(loop.body):
        return loop
    if not all(_differs(node, loop.var) for node in walk(loop.body) if isinstance(node, Store)):
        return loop
    body = loop.body
    if instructions(body) > MOST_TRIP:
        body = tuple([_with_trips(node) if isinstance(node, Loop) else node for node in body])
    return replace(loop, kind=LoopKind.SERIAL, body=body)


def _has_copies(body: Nodes) -> bool:
    """Whether something in a trip is unrolled: beside it, counting trips does not show."""
    loops = (node for node in walk(body) if isinstance(node, Loop))
    return any(loop.kind is LoopKind.UNROLLED and loop.extent > 1 for loop in loops)


def _differs(store: Store, var: LoopVar) -> bool:
    """Whether each operation of a statement gives something else in every trip."""
    known: dict[int, bool] = {}

    def differs(node: Expr) -> bool:
        found = known.get(id(node))
        if found is None:
            if isinstance(node, BufferLoad):
                found = any(var in index_variables(index) for index in node.indices)
            else:
                found = any([differs(operand) for operand in value_operands(node)])
            known[id(node)] = found
        return found

    operations = (n for v in store.values for n in walk_value(v) if value_operands(n))
    return all(differs(node) for node in operations)
