"""What a recorded schedule does, in a few words, told from its steps alone: for tables of a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from autosched.records.record import Record

_Steps = list[Mapping[str, Any]]


def structure(record: Record) -> str:
    """``winograd: tiled 4, packed, 2 inlined, 1 fused``: the variant, and what its steps do.

    "tiled" counts the loops that an axis became, "fused" the stages that are computed inside of
    the loops of another.
    """
    by_kind: dict[str, _Steps] = {}
    for step in record.steps:
        by_kind.setdefault(step["kind"], []).append(step)
    words = [word(by_kind[kind]) for kind, word in _WORDS.items() if kind in by_kind]
    return f"{record.variant}: {', '.join(filter(None, words)) or 'as written'}"


def _tiled(steps: _Steps) -> str:
    return f"tiled {max(len(step['factors']) for step in steps) + 1}"


def _copied(steps: _Steps) -> str:
    scopes = Counter(step["scope"] for step in steps)
    return ", ".join(f"{count} in {scope}" for scope, count in scopes.items())


# In the order of the description; other kinds of steps say nothing to people.
_WORDS: Final[Mapping[str, Callable[[_Steps], str]]] = {
    "split": _tiled,
    "cache_write": lambda steps: "cache write",
    "cache_read": _copied,
    "rfactor": lambda steps: f"reduced in {steps[0]['parts']} parts",
    "split_reduce": lambda steps: f"reduced in {steps[0]['parts']} blocks",
    "pack": lambda steps: "packed",
    "inline": lambda steps: f"{len(steps)} inlined",
    "compute_at": lambda steps: f"{len(steps)} fused",
}
