"""The order of a model's nodes: each after those whose results it reads.

The standard asks for it; onnxruntime sorts what it loads, and so tools of its own leave models that
are not in order (its float16 converter appends the casts of a model's inputs).
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from autosched.host.node_names import read_names


def in_order(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with the nodes of its graph in order: a copy, or itself where they are.

    Nodes that read each other's results stay as they are, and so do branches, as in onnxruntime.
    """
    order = _order(model.graph.node)
    if order is None:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.node[:]
    copy.graph.node.extend(model.graph.node[n] for n in order)
    return copy


def _order(nodes: Sequence[onnx.NodeProto]) -> list[int] | None:
    """Places of the nodes in order; None: they are in order, or no order is right."""
    maker = {name: n for n, node in enumerate(nodes) for name in node.output if name}
    before = [{maker[name] for name in read_names(node) if name in maker} for node in nodes]
    if all(made < n for n, needed in enumerate(before) for made in needed):
        return None
    order: dict[int, None] = {}
    # Depth first without recursion: a node is looked at again after those that it waits for.
    waiting = list(reversed(range(len(nodes))))
    begun: set[int] = set()
    while waiting:
        n = waiting.pop()
        missing = [made for made in before[n] if made not in order]
        if n in order:
            continue
        if not missing:
            order[n] = None
        elif n in begun:
            return None
        else:
            begun.add(n)
            waiting += [n, *sorted(missing, reverse=True)]
    return list(order)
