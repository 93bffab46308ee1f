"""Loops are bound to blocks and threads; loops of threads that fill shared memory are shared out.

    block i, block j                       block = blockIdx.x:   i, j
      thread t                             thread = threadIdx.x: t
        local acc                    ->    local acc
          serial k                         serial k
            shared tile                      shared tile
              thread a, thread b: fill       cooperative a, b: fill
              ...                            ...

Linear indices of blocks and threads are decoded into the loops' variables, innermost fastest.
Loops of threads that compute what is private run over the lanes of a thread's point (``lanes``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from codegen.cuda.device import (
    Binding,
    Cooperative,
    Declare,
    DeviceFunction,
    DeviceNode,
    For,
    points,
)
from codegen.cuda.passes.lanes import PointLanes, combined, is_lane_loop, is_shared_sum, lanes_of
from codegen.errors import CodegenError
from codegen.passes.rewrite import Nodes, substitute
from sketch.lang.affine import UNBOUNDED
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Branch,
    Loop,
    LoopKind,
    LoopNest,
    Node,
    Predicate,
    Scope,
    Store,
)
from sketch.nest.printer import print_affine

_BOUND = (LoopKind.BLOCK, LoopKind.THREAD)
_OWN = (LoopKind.SERIAL, LoopKind.UNROLLED, LoopKind.TENSOR)


def bind_threads(nest: LoopNest) -> tuple[DeviceFunction, ...]:
    """One function for each root, to be launched in order.

    Raises CodegenError on loops that have no place on a GPU, or threads inside a thread that
    neither fill shared memory nor are lanes.
    """
    return tuple(_bind_root(root) for root in nest.roots)


def _bind_root(root: Node) -> DeviceFunction:
    bound: dict[LoopKind, list[Binding]] = {kind: [] for kind in _BOUND}
    nodes: Nodes = (root,)
    while len(nodes) == 1 and isinstance(nodes[0], Loop) and nodes[0].kind in _BOUND:
        loop = nodes[0]
        bound[loop.kind].append(_binding(loop))
        nodes = loop.body
    outer = tuple(bound[LoopKind.THREAD])
    lanes = lanes_of(nodes, outer)
    return DeviceFunction(
        blocks=tuple(bound[LoopKind.BLOCK]),
        threads=outer if lanes is None else lanes.threads(outer),
        body=_Thread(lanes, points(outer)).nodes(nodes),
    )


def _binding(loop: Loop) -> Binding:
    if loop.clip:
        raise CodegenError(f"{loop.kind.value} loop {loop.var.name} is clipped", "CUDA code")
    return Binding.of(loop)


@dataclass(frozen=True, slots=True)
class _Thread:
    """What a thread runs.

    Attributes:
        lanes: the threads that share a point of the outer threads, if there are several.
        outer: how many points a block has.
        by_lane: whether each lane does a part of its own.
        adding: whether a sum over lanes is being computed.
    """

    lanes: PointLanes | None
    outer: int
    by_lane: bool = False
    adding: bool = False

    def nodes(self, nodes: Nodes) -> tuple[DeviceNode, ...]:
        return tuple(made for node in nodes for made in self.node(node))

    def node(self, node: Node) -> tuple[DeviceNode, ...]:
        match node:
            case Store(targets) if any(target.scope is Scope.SHARED for target in targets):
                return (Cooperative((), (node,)),)  # one point: the first thread writes it
            case Store():
                return (self._once(node),)
            case Allocate(buffer, body):
                return (Declare(buffer), *self.nodes(body))
            case Loop():
                return self._loop(node)
            case Branch(index):
                raise CodegenError(f"branch over {print_affine(index)}", "CUDA code")

    def _loop(self, loop: Loop) -> tuple[DeviceNode, ...]:
        if self.lanes is not None and not self.adding and is_shared_sum(loop):
            terms = replace(self, adding=True).node(loop)
            return (*terms, *combined(loop, self.lanes, self.outer))
        if loop.kind is LoopKind.THREAD:
            return self._lane(loop) if is_lane_loop(loop) else (_share_out(loop),)
        if loop.kind not in _OWN:
            raise CodegenError(
                f"loop {loop.var.name} is of kind {loop.kind.value}",
                "CUDA code",
                "lower the sketch for a GPU target; blocks go around everything else",
            )
        return (_for(loop, self.nodes(loop.body)),)

    def _lane(self, loop: Loop) -> tuple[DeviceNode, ...]:
        """The trip of a loop over lanes that is this thread's."""
        assert self.lanes is not None
        if self.by_lane:
            raise CodegenError(f"threads over {loop.var.name} are inside threads", "CUDA code")
        value = Affine(((self.lanes.binding.var, int(loop.stride)),))
        if loop.clip:
            raise CodegenError(f"{loop.kind.value} loop {loop.var.name} is clipped", "CUDA code")
        return replace(self, by_lane=True).nodes(substitute(loop.body, {loop.var: value}))

    def _once(self, store: Store) -> Store:
        """Of the lanes that compute the same, one stores it."""
        private = store.targets[0].scope is Scope.LOCAL
        if private and self.by_lane and not self.adding:
            raise CodegenError(
                f"threads inside a thread write {store.targets[0].name}, which is private to each",
                "CUDA code",
                "let them fill shared memory, or add to what all of them share",
            )
        if self.lanes is None or self.by_lane or private:
            return store
        first = Predicate(Affine(((self.lanes.binding.var, 1),)), -UNBOUNDED, 1)
        return replace(store, predicates=(*store.predicates, first))


def _for(loop: Loop, body: tuple[DeviceNode, ...]) -> For:
    tensor = loop.kind is LoopKind.TENSOR
    unroll = tensor or loop.kind is LoopKind.UNROLLED
    return For(loop.var, int(loop.extent), int(loop.stride), unroll, loop.clip, body, tensor)


def _share_out(loop: Loop) -> Cooperative:
    """Threads inside a thread: all threads of the block together fill a shared buffer."""
    bindings = [_binding(loop)]
    nodes = loop.body
    while len(nodes) == 1 and isinstance(nodes[0], Loop) and nodes[0].kind is LoopKind.THREAD:
        bindings.append(_binding(nodes[0]))
        nodes = nodes[0].body
    return Cooperative(tuple(bindings), _alone(nodes))


def _alone(nodes: Nodes) -> tuple[DeviceNode, ...]:
    """A part of a shared fill that one thread runs by itself."""
    return tuple(made for node in nodes for made in _alone_node(node))


def _alone_node(node: Node) -> tuple[DeviceNode, ...]:
    match node:
        case Store():
            return (node,)
        case Loop(kind=kind) if kind in _OWN:
            return (_for(node, _alone(node.body)),)
        case Allocate(buffer, body) if buffer.scope is Scope.LOCAL:
            return (Declare(buffer), *_alone(body))
        case _:
            raise CodegenError(
                "shared memory is filled by more than loops, stores and private memory", "CUDA code"
            )
