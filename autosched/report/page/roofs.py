"""The roofline: every task under what the machine can do."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.page.blocks import PageSection, PageText
from autosched.report.page.subject import ReportSubject
from autosched.runtime.backend import runtime_of
from autosched.runtime.explanation import Machine, measured_machine
from autosched.runtime.roofline import RooflinePoint, roofline_chart
from autosched.system.numbers import four_digits
from autosched.tasks.compulsory_traffic import compulsory_bytes
from sketch.errors import AutoschedError

_TITLE = "Roofline"
_UNKNOWN = (
    "What a task moves through memory follows from its program, which is not in the log: give the "
    "model to see its tasks under the roofs of the machine."
)


@dataclass(frozen=True, slots=True)
class Roofs:
    """What the machine of the log can do.

    Attributes:
        machine: as measured; None: it is not this one.
        note: why there is none, or how it was measured.
    """

    machine: Machine | None
    note: str


def roofs_of(subject: ReportSubject) -> Roofs:
    """Measured now, with the threads of the log; takes about a second."""
    target = subject.main.target
    if not subject.specs:
        return Roofs(None, _UNKNOWN)
    if not runtime_of(target).in_process:
        return Roofs(None, "The roofs of a GPU are not measured for a report.")
    size = sum(compulsory_bytes(spec.dag) for spec in subject.specs.values())
    try:
        found = measured_machine(target, int(size))
    except AutoschedError:
        return Roofs(None, "The log is of another machine, whose roofs can only be measured there.")
    note = (
        f"Roofs: {four_digits(found.flops / 1e9)} GFLOP/s of float32 multiply-adds, and "
        f"{four_digits(found.bandwidth / 1e9)} GB/s ({found.how}), measured for this report."
    )
    return Roofs(found, note)


def roofline_section(subject: ReportSubject, roofs: Roofs) -> PageSection:
    """Speed over arithmetic intensity, the larger the more time it takes."""
    points = _points(subject)
    if not points:
        text = "No task has both operations and a time." if subject.specs else _UNKNOWN
        return PageSection("roofline", _TITLE, (PageText(text),))
    note = (
        f"{roofs.note} Traffic is the least that there can be, each array once: a task whose data "
        "stay in a cache may be above the slope, and so may one of a variant with fewer operations."
    )
    chart = roofline_chart(points, roofs.machine, "task")
    return PageSection("roofline", _TITLE, (chart, PageText(note)))


def _points(subject: ReportSubject) -> list[RooflinePoint]:
    run, found = subject.main, []
    for task in run.timed:
        if task.key in subject.specs and task.flops:
            intensity = task.flops / compulsory_bytes(subject.specs[task.key].dag)
            share = task.total_s / run.total_s
            found.append(
                RooflinePoint(task.label, intensity, task.flops / task.seconds / 1e9, share)
            )
    return found
