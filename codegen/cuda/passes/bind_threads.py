"""Loops are bound to blocks and threads; loops of threads that fill shared memory are shared out.

    block i, block j                       block = blockIdx.x:   i, j
      thread t                             thread = threadIdx.x: t
        local acc                    ->    local acc
          serial k                         serial k
            shared tile                      shared tile
              thread a, thread b: fill       cooperative a, b: fill
              ...                            ...

Linear indices of blocks and threads are decoded into the loops' variables, innermost fastest.
"""

from __future__ import annotations

from codegen.cuda.device import Binding, Cooperative, Declare, DeviceFunction, DeviceNode, For
from codegen.errors import CodegenError
from codegen.passes.rewrite import Nodes
from sketch.nest.loopnest import Allocate, Branch, Loop, LoopKind, LoopNest, Node, Scope, Store
from sketch.nest.walk import stores

_BOUND = (LoopKind.BLOCK, LoopKind.THREAD)
_OWN = (LoopKind.SERIAL, LoopKind.UNROLLED)


def bind_threads(nest: LoopNest) -> tuple[DeviceFunction, ...]:
    """One function for each root, to be launched in order.

    Raises CodegenError on loops that have no place on a GPU, or threads that compute something
    private inside a thread.
    """
    return tuple(_bind_root(root) for root in nest.roots)


def _bind_root(root: Node) -> DeviceFunction:
    bound: dict[LoopKind, list[Binding]] = {kind: [] for kind in _BOUND}
    nodes: Nodes = (root,)
    while len(nodes) == 1 and isinstance(nodes[0], Loop) and nodes[0].kind in _BOUND:
        loop = nodes[0]
        bound[loop.kind].append(_binding(loop))
        nodes = loop.body
    return DeviceFunction(
        blocks=tuple(bound[LoopKind.BLOCK]),
        threads=tuple(bound[LoopKind.THREAD]),
        body=_body(nodes),
    )


def _binding(loop: Loop) -> Binding:
    if loop.clip:
        raise CodegenError(f"{loop.kind.value} loop {loop.var.name} is clipped", "CUDA code")
    return Binding.of(loop)


def _body(nodes: Nodes) -> tuple[DeviceNode, ...]:
    return tuple(made for node in nodes for made in _node(node))


def _node(node: Node) -> tuple[DeviceNode, ...]:
    match node:
        case Store(targets) if any(target.scope is Scope.SHARED for target in targets):
            return (Cooperative((), (node,)),)  # one point: the first thread writes it
        case Store():
            return (node,)
        case Allocate(buffer, body):
            return (Declare(buffer), *_body(body))
        case Loop(kind=LoopKind.THREAD):
            return (_share_out(node),)
        case Loop(kind=kind) if kind in _OWN:
            return (_for(node, _body(node.body)),)
        case Loop(var, kind=kind):
            raise CodegenError(
                f"loop {var.name} is of kind {kind.value}",
                "CUDA code",
                "lower the sketch for a GPU target; blocks go around everything else",
            )
        case Branch(var):
            raise CodegenError(f"branch over {var.name}", "CUDA code")


def _for(loop: Loop, body: tuple[DeviceNode, ...]) -> For:
    unroll = loop.kind is LoopKind.UNROLLED
    return For(loop.var, int(loop.extent), int(loop.stride), unroll, loop.clip, body)


def _share_out(loop: Loop) -> Cooperative:
    """Threads inside a thread: all threads of the block together fill a shared buffer."""
    for store, _ in stores((loop,)):
        private = [target.name for target in store.targets if target.scope is not Scope.SHARED]
        if private:
            raise CodegenError(
                f"threads over {loop.var.name} write {', '.join(private)}, which is not shared",
                "CUDA code",
                "inside a thread, threads may only fill shared memory",
            )
    bindings = [_binding(loop)]
    nodes = loop.body
    while len(nodes) == 1 and isinstance(nodes[0], Loop) and nodes[0].kind is LoopKind.THREAD:
        bindings.append(_binding(nodes[0]))
        nodes = nodes[0].body
    return Cooperative(tuple(bindings), tuple(_alone(node) for node in nodes))


def _alone(node: Node) -> DeviceNode:
    """A part of a shared fill that one thread runs by itself."""
    match node:
        case Store():
            return node
        case Loop(kind=kind) if kind in _OWN:
            return _for(node, tuple(_alone(inner) for inner in node.body))
        case _:
            raise CodegenError("shared memory is filled by more than loops and stores", "CUDA code")
