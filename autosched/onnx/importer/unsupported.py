"""What cannot be imported, in a few words however much it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

# Of what a message names: operators, nodes of each, and characters of a reason.
_KINDS: Final = 6
_NODES: Final = 3
_REASON: Final = 160
_ONE_MACHINE: Final = "com.microsoft.nchwc."


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A node that cannot be imported.

    Attributes:
        operator: with its domain, where that is not ONNX's own.
        label: of the node.
        reason: why; empty for an unknown operator.
    """

    operator: str
    label: str
    reason: str = ""


def kinds_of(nodes: Sequence[Unsupported]) -> str:
    """Operators and reasons, each once with its first nodes; the rest as a number."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        kinds.setdefault((node.operator, node.reason), []).append(node.label)
    parts = [
        f"{operator} {_first(labels)}{_cause(reason)}"
        for (operator, reason), labels in islice(kinds.items(), _KINDS)
    ]
    left = len(kinds) - len(parts)
    return "; ".join([*parts, *([f"and {left} kinds more"] if left else [])])


def advice_for(nodes: Sequence[Unsupported]) -> str:
    """What to do about them."""
    if all(node.operator.startswith(_ONE_MACHINE) for node in nodes):
        return (
            "onnxruntime saved the model in the layout of one machine: save it with "
            "ORT_ENABLE_EXTENDED"
        )
    return "export the model without them, or replace them by what `autosched operators` lists"


def _first(labels: Sequence[str]) -> str:
    named = ", ".join(map(repr, labels[:_NODES]))
    left = len(labels) - _NODES
    return f"{named} and {left} more" if left > 0 else named


def _cause(reason: str) -> str:
    if not reason:
        return ""
    return f" ({reason if len(reason) <= _REASON else reason[: _REASON - 1] + '…'})"
