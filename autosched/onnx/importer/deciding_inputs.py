"""Inputs that decide which branches of a model are taken, and advice to give them values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import onnx

from autosched.host.node_names import read_names, walk
from autosched.onnx.importer.piece import type_of

_OF_SHAPES: Final = ("Shape", "Size")


def deciding_inputs(graph: onnx.GraphProto, choices: Iterable[onnx.NodeProto]) -> list[str]:
    """Inputs of one element each that alone decide a condition of ``choices`` or inside of them.

    Args:
        graph: with static types of its inputs.
        choices: nodes of it.
    """
    makers = {name: node for node in walk(graph.node) for name in node.output if name}
    constants = {tensor.name for tensor in graph.initializer}
    kinds = {info.name: type_of(info) for info in graph.input if info.name not in constants}
    found: dict[str, None] = {}
    for node in walk(choices):
        reached = _reached(node.input[0], makers, kinds) if node.op_type == "If" else []
        if all((kind := kinds[name]) is not None and kind.size == 1 for name in reached):
            found.update(dict.fromkeys(reached))
    return list(found)


def _reached(name: str, makers: dict[str, onnx.NodeProto], inputs: Iterable[str]) -> list[str]:
    """Inputs of which elements go into a value."""
    known = set(inputs)
    found: dict[str, None] = {}
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in known:
            found[value] = None
        elif value in makers and makers[value].op_type not in _OF_SHAPES:
            waiting += read_names(makers[value])
    return list(found)


def advice_on_values(names: Sequence[str]) -> str:
    """What to do where these inputs decide what cannot be imported; empty without any."""
    if not names:
        return ""
    values = ", ".join(f"{name!r}: ..." for name in names)
    options = " ".join(f"--value {name}=..." for name in names)
    return (
        f"give what decides on an If a value: autosched.from_onnx(path, values={{{values}}}) "
        f"(on the command line: {options})"
    )
