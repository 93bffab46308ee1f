"""Which tasks of a program no record of tuning was used for, of a log or of the release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from autosched.runtime.program import ExecutionPlan

# Tasks that a warning names; `autosched summary` has them all.
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Untuned:
    """A task that uses the schedule which the draft model predicts to be fastest.

    Attributes:
        task: key of the task.
        op: what it computes.
        layers: the model's layers that it computes, over all its kernels.
    """

    task: str
    op: str
    layers: tuple[str, ...]

    def __str__(self) -> str:
        more = f" and {len(self.layers) - 1} more" if len(self.layers) > 1 else ""
        return f"{self.task[:8]} {self.op} ({self.layers[0] if self.layers else ''}{more})"


def untuned_tasks(program: ExecutionPlan) -> tuple[Untuned, ...]:
    """The tasks without a record, in execution order."""
    found: dict[str, Untuned] = {}
    for step in program.kernel_steps:
        info = step.info
        if info.schedule in ("record", "release"):
            continue
        layers = found[info.task].layers if info.task in found else ()
        names = info.layers or (info.name,)
        found[info.task] = Untuned(info.task, info.op or info.name, layers + names)
    return tuple(found.values())


def untuned_warning(program: ExecutionPlan) -> str:
    """One line: the first of them and what they use instead; empty if every task has a record."""
    untuned = untuned_tasks(program)
    if not untuned:
        return ""
    count = len({step.info.task for step in program.kernel_steps})
    named = "" if len(untuned) == count else f": {', '.join(map(str, untuned[:_NAMED]))}"
    more = f" and {len(untuned) - _NAMED} more" if named and len(untuned) > _NAMED else ""
    have, use = ("has", "uses") if len(untuned) == 1 else ("have", "use")
    return (
        f"{len(untuned)} of {count} {'task' if count == 1 else 'tasks'} {have} no record and {use} "
        f"the schedule that the draft model predicts to be fastest{named}{more}"
    )
