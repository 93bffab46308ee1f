"""What became of one case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Json = dict[str, Any]
Outcome = Literal["right", "refused", "wrong", "crash", "hang", "out_of_bounds", "error"]
OUTCOMES: Final = ("right", "refused", "wrong", "crash", "hang", "out_of_bounds", "error")
FAILURES: Final = ("wrong", "crash", "hang", "out_of_bounds", "error")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a case, why, and what was done on the way.

    Attributes:
        outcome: "right"; "refused" by an error of ours; "wrong" result; "crash" of the process;
            "hang", longer than the part's limit; "out_of_bounds", a read or write outside a
            buffer; "error", an exception that is not one of ours.
        message: for people: which element, which exception, where.
        counts: of what the case did: kernels, elements, kills.
    """

    outcome: Outcome
    message: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether it counts against the product; a refusal does not."""
        return self.outcome in FAILURES

    @property
    def signature(self) -> str:
        """Equal for failures that look alike: the message without numbers and names."""
        plain = re.sub(r"'[^']*'|\"[^\"]*\"|\d[\d.e+-]*", "#", self.message)
        return f"{self.outcome}: {plain[:60]}"

    @property
    def kind(self) -> str:
        """The name of the exception, where there is one."""
        return self.message.partition(":")[0] if self.outcome in ("error", "refused") else ""

    def to_json(self) -> Json:
        """All fields by name."""
        return {"outcome": self.outcome, "message": self.message, "counts": dict(self.counts)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Verdict:
        """The inverse of ``to_json``; other keys are ignored."""
        return Verdict(data["outcome"], data["message"], data["counts"])
