"""The roofline: every task under what the machine can do."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.report.page.blocks import PageChart, PageSection, PageTable, PageText
from autosched.report.page.subject import ReportSubject
from autosched.report.page.words import number, percent
from autosched.runtime.backend import runtime_of
from autosched.runtime.explanation import Machine, measured_machine
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
        f"Roofs: {number(found.flops / 1e9)} GFLOP/s of float32 multiply-adds, and "
        f"{number(found.bandwidth / 1e9)} GB/s ({found.how}), measured for this report."
    )
    return Roofs(found, note)


@dataclass(frozen=True, slots=True)
class _Point:
    """A task: FLOP per byte, GFLOP/s, and its share of the time."""

    task: str
    intensity: float
    speed: float
    share: float


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
    return PageSection("roofline", _TITLE, (_chart(points, roofs.machine), PageText(note)))


def _points(subject: ReportSubject) -> list[_Point]:
    run, found = subject.main, []
    for task in run.timed:
        if task.key in subject.specs and task.flops:
            intensity = task.flops / compulsory_bytes(subject.specs[task.key].dag)
            share = task.total_s / run.total_s
            found.append(_Point(task.label, intensity, task.flops / task.seconds / 1e9, share))
    return found


def _chart(points: list[_Point], machine: Machine | None) -> PageChart:
    values = [
        {"task": p.task, "intensity": p.intensity, "speed": p.speed, "percent": 100 * p.share}
        for p in points
    ]
    axis = {"type": "quantitative", "scale": {"type": "log"}}
    up = {"field": "speed", **axis, "title": "GFLOP/s"}
    layers = [
        {
            "data": {"values": values},
            "mark": {
                "type": "point",
                "filled": True,
                "opacity": 0.7,
                "tooltip": {"content": "data"},
            },
            "encoding": {
                "y": up,
                "size": {
                    "field": "percent",
                    "type": "quantitative",
                    "title": "% of the time",
                    "scale": {"range": [20, 900]},
                },
            },
        }
    ]
    if machine is not None:
        layers.append(
            {
                "data": {"values": _roof(points, machine)},
                "mark": {"type": "line", "strokeDash": [6, 4]},
                "encoding": {"y": up},
            }
        )
    across = {"field": "intensity", **axis, "title": "FLOP per byte of the least traffic"}
    spec = {"width": "container", "height": 360, "encoding": {"x": across}, "layer": layers}
    rows = tuple(_row(point, machine) for point in points)
    header = ("task", "FLOP/byte", "GFLOP/s", "of the roof", "of the time")
    table = PageTable("Tasks against their roofs", header, rows)
    alt = f"Points: speed over arithmetic intensity of {len(points)} tasks, on two log axes."
    return PageChart("Tasks under the roofs of the machine", alt, spec, table)


def _limit(intensity: float, machine: Machine) -> float:
    """GFLOP/s."""
    return min(machine.flops, machine.bandwidth * intensity) / 1e9


def _roof(points: list[_Point], machine: Machine) -> list[dict[str, float]]:
    ridge = machine.flops / machine.bandwidth
    ends = [ridge, *(point.intensity for point in points)]
    places = (min(ends) / 2, ridge, max(ends) * 2)
    return [{"intensity": at, "speed": _limit(at, machine)} for at in places]


def _row(point: _Point, machine: Machine | None) -> tuple[str, ...]:
    roof = "" if machine is None else percent(point.speed / _limit(point.intensity, machine))
    return point.task, number(point.intensity), number(point.speed), roof, percent(point.share)
