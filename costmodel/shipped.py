"""Where the model of a release lies: what ``autosched costmodel train`` wrote, in the package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sketch.target.of_kind import of_kind
from sketch.target.target import Target, TargetKind

SHIPPED: Final = Path(__file__).with_name("shipped.json")
"""A release may come without it."""


@dataclass(frozen=True, slots=True)
class _TrainedOn:
    """The model of one kind of machine; None: there is none."""

    kind: TargetKind
    path: Path | None


def shipped_for(target: Target) -> Path | None:
    """The model's file, where it knows kernels like those of a target; None: there is none."""
    path = of_kind(target, (_TrainedOn("cpu", SHIPPED), _TrainedOn("cuda", None))).path
    return path if path is not None and path.exists() else None
