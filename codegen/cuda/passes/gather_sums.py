"""A root reduction to a single value becomes one nest with a private sum.

    total = 0                            local sum
    serial r, thread t: total += ...  ->   sum = 0
                                           serial r, thread t: sum += ...
                                           total = sum

Without axes there is no loop that could hold both parts, nor a consumer's nest to compute it in.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.passes.rewrite import Nodes, map_body
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Buffer,
    BufferLoad,
    Loop,
    LoopNest,
    Node,
    Scope,
    Store,
)
from sketch.nest.walk import stores


def gather_sums(nest: LoopNest) -> LoopNest:
    """The nest with fewer roots."""
    roots: list[Node] = []
    pending = list(nest.roots)
    while pending:
        node = pending.pop(0)
        if isinstance(node, Store) and pending and _adds_to(pending[0], node.targets):
            node = _gathered(node, pending.pop(0))
        roots.append(node)
    return nest if len(roots) == len(nest.roots) else replace(nest, roots=tuple(roots))


def _adds_to(node: Node, targets: tuple[Buffer, ...]) -> bool:
    return isinstance(node, Loop) and all(
        store.reducer is not None and store.targets == targets for store, _ in stores((node,))
    )


def _gathered(start: Store, loop: Node) -> Node:
    private = tuple(
        Buffer(f"{target.name}.sum", target.dtype, (1,), (1,), (1,), Scope.LOCAL, 1)
        for target in start.targets
    )
    cell = (Affine(()),)

    def kept(nodes: Nodes) -> Nodes:
        return tuple(
            replace(node, targets=private, indices=cell)
            if isinstance(node, Store)
            else map_body(node, kept)
            for node in nodes
        )

    loads = tuple(BufferLoad(buffer, cell) for buffer in private)
    node: Nodes = (*kept((start, loop)), replace(start, values=loads))
    for buffer in reversed(private):
        node = (Allocate(buffer, node),)
    return node[0]
