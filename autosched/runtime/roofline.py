"""Speed over arithmetic intensity, under what the machine can do, as a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autosched.page.blocks import PageChart, PageTable
from autosched.page.words import percent
from autosched.runtime.explanation import Machine
from autosched.system.numbers import four_digits


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """A task or an operator: FLOP per byte, GFLOP/s, and its share of the time."""

    label: str
    intensity: float
    speed: float
    share: float


def roofline_chart(
    points: Sequence[RooflinePoint], machine: Machine | None, what: str
) -> PageChart:
    """The larger a point, the more time it takes.

    Args:
        points: at least one.
        machine: gives the roofs; None: they are not known.
        what: the points are, such as "task".
    """
    values = [
        {what: p.label, "intensity": p.intensity, "speed": p.speed, "percent": 100 * p.share}
        for p in points
    ]
    axis = {"type": "quantitative", "scale": {"type": "log"}}
    up = {"field": "speed", **axis, "title": "GFLOP/s"}
    layers: list[dict[str, Any]] = [
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
    header = (what, "FLOP/byte", "GFLOP/s", "of the roof", "of the time")
    table = PageTable(f"Each {what} against its roof", header, rows)
    alt = f"Points: speed over arithmetic intensity of {len(points)} {what}s, on two log axes."
    return PageChart(f"Each {what} under the roofs of the machine", alt, spec, table)


def _limit(intensity: float, machine: Machine) -> float:
    """GFLOP/s."""
    return min(machine.flops, machine.bandwidth * intensity) / 1e9


def _roof(points: Sequence[RooflinePoint], machine: Machine) -> list[dict[str, float]]:
    ridge = machine.flops / machine.bandwidth
    ends = [ridge, *(point.intensity for point in points)]
    places = (min(ends) / 2, ridge, max(ends) * 2)
    return [{"intensity": at, "speed": _limit(at, machine)} for at in places]


def _row(point: RooflinePoint, machine: Machine | None) -> tuple[str, ...]:
    roof = "" if machine is None else percent(point.speed / _limit(point.intensity, machine))
    return (
        point.label,
        four_digits(point.intensity),
        four_digits(point.speed),
        roof,
        percent(point.share),
    )
