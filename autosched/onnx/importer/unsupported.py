"""What cannot be imported, in a few words however much it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from autosched.graph.errors import UnsupportedModelError

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


@dataclass(slots=True)
class Refusals:
    """What of one model cannot be imported.

    Attributes:
        nodes: each of them once, in the model's order.
        causes: by value whose type is not known, the node that this began with and why no kernel
            computes that.
    """

    nodes: list[Unsupported] = field(default_factory=list)
    causes: dict[str, Unsupported] = field(default_factory=dict)

    def add(self, node: Unsupported) -> None:
        """A node that cannot be imported."""
        if node not in self.nodes:
            self.nodes.append(node)

    def cause(self, values: Iterable[str]) -> Unsupported | None:
        """What keeps the first of ``values`` without a known type from having one, if known."""
        return next((self.causes[name] for name in values if name in self.causes), None)

    def note(self, cause: Unsupported | None, values: Iterable[str]) -> None:
        """Why ``values`` have no known types, where there is a reason."""
        if cause is not None and cause.reason:
            self.causes.update(dict.fromkeys(values, cause))

    def error(self, model: str, advice: str) -> UnsupportedModelError:
        """The one error that lists them; ``advice``: what to do, empty for what helps always."""
        count = len(self.nodes)
        return UnsupportedModelError(
            f"{count} node{'s are' if count > 1 else ' is'} not supported: {kinds_of(self.nodes)}",
            f"model {model}",
            advice or advice_for(self.nodes),
        )


def joined(reasons: Iterable[str]) -> str:
    """Each reason once, those that say nothing left out."""
    return "; ".join(dict.fromkeys(filter(None, reasons)))


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
