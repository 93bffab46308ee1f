"""Local functions of a model: how large it gets when all of them are inlined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import onnx

from autosched.graph.errors import ModelImportError
from autosched.host.node_names import walk

MAX_INLINED_NODES: Final = 200_000
"""A few functions that call each other twice make millions of nodes: counted before it is done."""

_Key = tuple[str, str, str]  # domain, name, overload


def check_inlined_size(model: onnx.ModelProto, where: str) -> None:
    """Raise ModelImportError if inlining makes too many nodes, or functions call themselves."""
    functions = {_key_of(function): function for function in model.functions}
    calls = {key: _calls(function.node, functions) for key, function in functions.items()}
    sizes: dict[_Key, int] = {}
    for key in _callees_first(calls, where):
        plain = sum(1 for _ in walk(functions[key].node)) - sum(calls[key].values())
        sizes[key] = plain + sum(sizes[callee] * n for callee, n in calls[key].items())
    total = sum(
        sizes[key] * count for key, count in _calls(model.graph.node, functions).items()
    ) + len(model.graph.node)
    if total > MAX_INLINED_NODES:
        raise ModelImportError(
            f"its local functions make about {total:,} nodes, more than {MAX_INLINED_NODES:,}",
            where,
            "export the model with fewer calls of functions within functions",
        )


def _key_of(function: onnx.FunctionProto) -> _Key:
    return (function.domain, function.name, getattr(function, "overload", ""))


def _calls(
    nodes: Iterable[onnx.NodeProto], functions: Mapping[_Key, onnx.FunctionProto]
) -> dict[_Key, int]:
    """How often ``nodes``, nested ones included, call each function."""
    found: dict[_Key, int] = {}
    for node in walk(nodes):
        key = (node.domain, node.op_type, getattr(node, "overload", ""))
        if key in functions:
            found[key] = found.get(key, 0) + 1
    return found


def _callees_first(calls: Mapping[_Key, Mapping[_Key, int]], where: str) -> list[_Key]:
    """The functions, each after all that it calls."""
    left = {key: set(callees) for key, callees in calls.items()}
    order: list[_Key] = []
    while left:
        ready = [key for key, callees in left.items() if not callees]
        if not ready:
            names = ", ".join(sorted(name for _, name, _ in left))
            raise ModelImportError(
                f"local functions call themselves: {names}", where, "ONNX has no recursion"
            )
        order += ready
        for key in ready:
            del left[key]
        for callees in left.values():
            callees.difference_update(ready)
    return order
