"""All parts of the campaign."""

from __future__ import annotations

from typing import Final

from campaign.part import Entry

PARTS: Final = (
    Entry("tensor", "campaign.tensor.part:PART", 10, {"cases": 20_000}, 60, 32),
    Entry("onnx", "campaign.graphs.part:PART", 6, {"cases": 10_000}, 60, 24),
    Entry("files", "campaign.files.part:PART", 2, {"logs": 3_000}, 60, 48),
    Entry("runtime", "campaign.faults.runtime_part:PART", 1.5, {"interrupts": 1_000}, 120, 8),
    Entry("kills", "campaign.faults.kills:PART", 3, {"kills": 1_000}, 180, 4),
)


def entry(name: str) -> Entry:
    """The part of that name.

    Raises:
        KeyError: there is none; the message lists all.
    """
    for part in PARTS:
        if part.name == name:
            return part
    raise KeyError(f"no part is called {name!r}; parts: {', '.join(p.name for p in PARTS)}")
