"""All parts of the campaign."""

from __future__ import annotations

from typing import Final

from campaign.part import Entry

PARTS: Final = (
    Entry("tensor", "tensor programs", "campaign.tensor.part:PART", 10, {"cases": 20_000}, 60, 32),
    Entry("onnx", "ONNX graphs", "campaign.graphs.part:PART", 6, {"cases": 10_000}, 60, 24,
          ("onnxruntime",)),
    Entry("files", "damaged files", "campaign.files.part:PART", 2, {"logs": 3_000}, 60, 48,
          ("onnx",)),
    Entry(
        "runtime", "disturbed runs", "campaign.faults.runtime_part:PART",
        1, {"interrupts": 1_000}, 120, 8,
    ),
    Entry("kills", "killed sessions", "campaign.faults.kills:PART", 3, {"kills": 1_000}, 300, 2),
    Entry("torch", "PyTorch modules", "campaign.precision.torch_modules:PART",
          2, {"cases": 200}, 120, 6, ("torch", "onnxscript")),
    Entry("lengths", "long reductions", "campaign.precision.lengths:PART",
          1, {"cases": 500}, 120, 8),
    Entry("leaks", "long processes", "campaign.precision.leaks:PART",
          2, {"runs": 100_000, "compiles": 10_000}, 300, 1),
)  # fmt: skip


def entry(name: str) -> Entry:
    """The part of that name.

    Raises:
        KeyError: there is none; the message lists all.
    """
    for part in PARTS:
        if part.name == name:
            return part
    raise KeyError(f"no part is called {name!r}; parts: {', '.join(p.name for p in PARTS)}")
