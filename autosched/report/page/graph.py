"""The network as a graph, with the time of every operator."""

from __future__ import annotations

from autosched.page.blocks import PageChart, PageSection, PageTable, PageText
from autosched.report.page.network import levels_of
from autosched.report.page.subject import ReportRun, ReportSubject
from autosched.system.numbers import significant


def network_section(subject: ReportSubject) -> PageSection:
    """The calls of the network in the order of execution, with their times."""
    if not subject.operators:
        text = "No network is given, so its operators are listed as tasks above, not as a graph."
        return PageSection("network", "Network", (PageText(text),))
    return PageSection("network", "Network", (_graph(subject),))


def _graph(subject: ReportSubject) -> PageChart:
    operators, levels = subject.operators, levels_of(subject.operators)
    times = [_operator_s(subject.main, operator.tasks) for operator in operators]
    places: list[tuple[int, int]] = []
    for level in levels:
        places.append((sum(y == level for _, y in places), level))
    nodes = [
        {"x": x, "y": y, "operator": operator.name, "us": seconds and seconds * 1e6}
        | {"layers": ", ".join(operator.layers)}
        for operator, seconds, (x, y) in zip(operators, times, places, strict=True)
    ]
    edges = [
        {"x": places[n][0], "y": places[n][1], "x2": x, "y2": y}
        for operator, (x, y) in zip(operators, places, strict=True)
        for n in operator.reads
    ]
    spec = {
        "autosize": "pad",
        "width": max(240, 150 * (1 + max(x for x, _ in places))),
        "height": 28 * (1 + max(levels)),
        "encoding": {
            "x": {
                "field": "x",
                "type": "quantitative",
                "axis": None,
                "scale": {"domain": [-0.5, max(x for x, _ in places) + 0.5]},
            },
            "y": {
                "field": "y",
                "type": "quantitative",
                "axis": None,
                "scale": {"reverse": True, "domain": [-0.5, max(levels) + 0.5]},
            },
        },
        "layer": [
            {
                "data": {"values": edges},
                "mark": {"type": "rule", "opacity": 0.4},
                "encoding": {"x2": {"field": "x2"}, "y2": {"field": "y2"}},
            },
            {
                "data": {"values": nodes},
                "mark": {
                    "type": "point",
                    "filled": True,
                    "opacity": 1,
                    "size": 160,
                    "invalid": None,
                    "tooltip": {"content": "data"},
                },
                "encoding": {
                    "color": {
                        "condition": {"test": "datum.us === null", "value": "gray"},
                        "field": "us",
                        "type": "quantitative",
                        "title": "us",
                        "scale": {"scheme": "viridis"},
                    }
                },
            },
            {
                "data": {"values": nodes},
                "mark": {"type": "text", "align": "left", "dx": 10, "limit": 120},
                "encoding": {"text": {"field": "operator"}},
            },
        ],
    }
    rows = tuple(
        (
            str(number),
            operator.name,
            ", ".join(operator.layers),
            "" if s is None else significant(s * 1e6, 1),
            ", ".join(map(str, operator.reads)),
        )
        for number, (operator, s) in enumerate(zip(operators, times, strict=True))
    )
    header = ("number", "operator", "layers", "us", "reads")
    table = PageTable("Operators in the order of execution", header, rows, (1, 2, 4))
    alt = f"A graph of {len(operators)} operators from top to bottom, coloured by their time."
    return PageChart("Operators, and which reads what which computes", alt, spec, table)


def _operator_s(run: ReportRun, keys: tuple[str, ...]) -> float | None:
    """Seconds of one execution of a kernel; None of a loop, of the host, and without a record."""
    task = run.task(keys[0]) if len(keys) == 1 else None
    return None if task is None or task.best is None else task.seconds
