"""Lanes: loops of threads inside a thread that compute what is private, all of one extent.

    thread row                              thread row, lane
      acc = 0                                 acc = 0
      serial k, thread t: acc += ...          serial k: acc[of the lane] += ...
                                       ->     combine acc of all lanes
      serial j, thread t: C = ... acc         serial j: C[of the lane] = ... acc

What stands outside such loops is computed by every lane alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codegen.cuda.device import Binding, Combine, Declare
from codegen.errors import CodegenError
from codegen.passes.affine import flatten
from codegen.passes.rewrite import Nodes
from sketch.nest.loopnest import Allocate, Buffer, Loop, LoopKind, LoopVar, Scope
from sketch.nest.walk import accesses, stores, walk

WARP = 32  # threads that exchange values by shuffles


@dataclass(frozen=True, slots=True, eq=False)
class PointLanes:
    """The threads that work together on what one point of the outer threads computes.

    Attributes:
        binding: of the lane's number.
        fastest: whether neighbouring threads are neighbouring lanes.
    """

    binding: Binding
    fastest: bool

    def threads(self, outer: tuple[Binding, ...]) -> tuple[Binding, ...]:
        """The bindings of all threads of a block."""
        return (*outer, self.binding) if self.fastest else (self.binding, *outer)


def lanes_of(nodes: Nodes, outer: tuple[Binding, ...]) -> PointLanes | None:
    """The lanes of the body of a thread; raises CodegenError where loops of lanes differ.

    ``outer``: the loops of threads around it.
    """
    loops = [n for n in walk(nodes) if isinstance(n, Loop) and is_lane_loop(n)]
    if not loops:
        return None
    extents = {int(loop.extent) for loop in loops}
    if len(extents) > 1:
        names = ", ".join(loop.var.name for loop in loops)
        raise CodegenError(f"loops over lanes have {sorted(extents)} trips: {names}", "CUDA code")
    binding = Binding(LoopVar("lane"), extents.pop(), 1)
    return PointLanes(binding, _are_neighbours(loops, outer))


def is_lane_loop(loop: Loop) -> bool:
    """Whether a loop inside a thread runs over lanes, not over points of a shared buffer, each of
    which one thread computes with what it has of its own.
    """
    if loop.kind is not LoopKind.THREAD:
        return False
    own = {node.buffer for node in walk((loop,)) if isinstance(node, Allocate)}
    written = {target for store, _ in stores((loop,)) for target in store.targets}
    return any(target.scope is not Scope.SHARED for target in written - own)


def is_shared_sum(loop: Loop) -> bool:
    """Whether a reduction has terms from several lanes."""
    return loop.axis_kind == "reduce" and any(
        isinstance(node, Loop) and node.axis_kind == "reduce" and is_lane_loop(node)
        for node in walk((loop,))
    )


def _are_neighbours(loops: list[Loop], outer: tuple[Binding, ...]) -> bool:
    """Whether more is read and written in order along the lanes than along the outer threads."""
    along: dict[Buffer, bool] = {}
    for loop in loops:
        for store, _ in stores((loop,)):
            for buffer, indices in accesses(store):
                if buffer.scope in (Scope.LOCAL, Scope.SHARED):
                    continue
                form = flatten(buffer, indices)[0]
                if form.coefficient(loop.var) == 1:
                    along[buffer] = True
                elif any(form.coefficient(binding.var) == 1 for binding in outer):
                    along.setdefault(buffer, False)
    sizes = [
        int(buffer.size) if by_lane else -int(buffer.size) for buffer, by_lane in along.items()
    ]
    return sum(sizes) >= 0


def combined(loop: Loop, lanes: PointLanes, outer: int) -> Iterator[Declare | Combine]:
    """What follows a reduction over lanes.

    Args:
        loop: the outermost loop of the reduction, with all of its terms inside.
        lanes: that share it.
        outer: threads of a block, for each lane.

    Raises:
        CodegenError: the sums are not private.
    """
    count = lanes.binding.extent
    inner = 1 if lanes.fastest else outer
    done: set[Buffer] = set()
    for store, _ in stores((loop,)):
        if store.reducer is None or store.targets[0] in done:
            continue
        done.add(store.targets[0])
        if any(target.scope is not Scope.LOCAL for target in store.targets):
            raise CodegenError(
                f"lanes add to {store.targets[0].name}, which is not private",
                "CUDA code",
                "compute the reduction inside the loops of a consumer",
            )
        size = _scratch_size(count, inner, count * outer)
        scratch = tuple(_scratch(target, size) for target in store.targets if size)
        yield from map(Declare, scratch)
        yield Combine(store.targets, store.reducer, lanes.binding.var, count, inner, scratch)


def _scratch_size(lanes: int, inner: int, block: int) -> int:
    """Elements of shared memory to combine values with, for each target."""
    if not shuffles(lanes, inner, block):
        return block
    return 0 if lanes <= WARP else block // WARP


def shuffles(lanes: int, inner: int, block: int) -> bool:
    """Whether the lanes of a warp can exchange values: whole warps of neighbours."""
    return inner == 1 and lanes & (lanes - 1) == 0 and block % WARP == 0


def _scratch(target: Buffer, size: int) -> Buffer:
    return Buffer(f"{target.name}_lanes", target.dtype, (size,), (1,), (1,), Scope.SHARED, size)
