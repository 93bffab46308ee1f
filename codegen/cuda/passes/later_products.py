"""Products that a tensor unit does later are begun together, and waited for.

serial k                          begin
  unit(A[k], B[k])        ->      serial k
                                    unit(A[k], B[k])
                                  end
                                  wait
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

from codegen.cuda.device import (
    BeginProducts,
    Cooperative,
    DeviceFunction,
    DeviceNode,
    EndProducts,
    For,
    MultiplyTiles,
    WaitProducts,
    walk_device,
)

Nodes = tuple[DeviceNode, ...]


def later_products(function: DeviceFunction) -> DeviceFunction:
    """The function with what orders such products."""
    return replace(function, body=_nodes(function.body))


def _nodes(nodes: Nodes) -> Nodes:
    new: list[DeviceNode] = []
    for together, group in groupby(nodes, _is_of_products):
        run = tuple(group)
        if together:
            acc = next(n.acc for n in walk_device(run) if isinstance(n, MultiplyTiles))
            new += [BeginProducts(acc), *run, EndProducts(), WaitProducts(acc)]
        else:
            new += [replace(n, body=_nodes(n.body)) if isinstance(n, For) else n for n in run]
    return tuple(new)


def _is_of_products(node: DeviceNode) -> bool:
    """Whether a node does nothing else."""
    if isinstance(node, For | Cooperative):
        return bool(node.body) and all(map(_is_of_products, node.body))
    return isinstance(node, MultiplyTiles)
