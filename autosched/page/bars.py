"""Times as bars, with their noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autosched.page.words import bars_height


@dataclass(frozen=True, slots=True)
class NoisyBar:
    """A time and the range that its samples say nothing within, in one unit."""

    label: str
    value: float
    low: float
    high: float


def noisy_bars(bars: Sequence[NoisyBar], what: str, unit: str) -> dict[str, Any]:
    """A chart in Vega-Lite: a bar each, in order, with a line over its range.

    Args:
        bars: labels are unique.
        what: the labels are of, such as "task".
        unit: of the times, as the axis calls them.
    """
    values = [
        {what: bar.label, "time": bar.value, "low": bar.low, "high": bar.high} for bar in bars
    ]
    quantity = {"type": "quantitative", "title": unit}
    return {
        "data": {"values": values},
        "width": "container",
        "height": bars_height(len(values)),
        "encoding": {"y": {"field": what, "type": "nominal", "sort": None, "title": None}},
        "layer": [
            {
                "mark": {"type": "bar", "tooltip": True, "opacity": 0.7},
                "encoding": {"x": {"field": "time", **quantity}},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 2},
                "encoding": {"x": {"field": "low", **quantity}, "x2": {"field": "high"}},
            },
        ],
    }
