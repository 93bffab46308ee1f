"""What ``Module.report`` writes: where the time of a compiled network goes, as one HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Final

from autosched.page.bars import NoisyBar, noisy_bars
from autosched.page.blocks import PageChart, PageSection, PageTable, PageText
from autosched.page.document import document
from autosched.page.file import ReportPage, library, written
from autosched.page.words import percent
from autosched.runtime.benchmark import Benchmark
from autosched.runtime.explanation import ExplainRow, Explanation
from autosched.runtime.program import ExecutionPlan, schedule_label
from autosched.runtime.roofline import RooflinePoint, roofline_chart
from autosched.runtime.summary import HEADER, LEFT, program_rows, program_totals
from autosched.system.numbers import four_digits, milliseconds, significant
from autosched.system.release import __version__
from autosched.system.versions import software_versions

_OPERATORS: Final = (
    "operator", "layers", "shapes", "us", "spread %", "share", "limit us", "lost us", "bound",
    "task", "schedule",
)  # fmt: skip
_OPERATORS_LEFT: Final = (0, 1, 2, 8, 9, 10)
_LIMITS: Final = (
    "A limit is the larger of the operations over the arithmetic peak and of inputs, constants and "
    "outputs, each once, over the bandwidth of the memory or, on a CPU, of the caches that hold "
    "them. Operations are those of the algorithm that is computed."
)


@dataclass(frozen=True, slots=True)
class TimedModule:
    """A compiled network for one set of input shapes, and its times on this machine."""

    program: ExecutionPlan
    benchmark: Benchmark
    explanation: Explanation

    @property
    def shapes(self) -> str:
        """The inputs, for people."""
        return ", ".join(map(str, self.program.inputs))


def module_report(timed: Sequence[TimedModule], path: str | PathLike[str] | None) -> ReportPage:
    """The page of one network, for one or several sets of input shapes; see ``Module.report``.

    Raises:
        MissingPackageError: what draws the charts is not installed.
        OptionError: the file cannot be written.
    """
    bundle, name = library(), timed[0].program.name
    sections = tuple(part for n, item in enumerate(timed) for part in _sections(item, n, timed))
    intro = f"Where the time of {name} goes, measured for this page."
    return written(document(f"Module report: {name}", intro, sections, bundle), path)


def _sections(
    item: TimedModule, position: int, timed: Sequence[TimedModule]
) -> Iterator[PageSection]:
    """``position``: of ``item`` among ``timed``."""
    several = len(timed) > 1
    of, ending = (f" of {item.shapes}", f"-{position}") if several else ("", "")
    yield PageSection(f"overview{ending}", f"Overview{of}", _overview(item))
    yield PageSection(f"operators{ending}", f"Operators{of}", _operators(item.explanation))
    yield PageSection(f"roofline{ending}", f"Roofline{of}", (_roofline(item.explanation),))
    yield PageSection(f"machine{ending}", f"Plan and machine{of}", _machine(item))


def _overview(item: TimedModule) -> tuple[PageText, ...]:
    text = " ".join(str(item.benchmark).split("\n"))
    found = item.explanation
    lost = (
        "With a clock read between the operators a run takes "
        f"{milliseconds(found.total_us / 1e6)} ms; {milliseconds(found.lost_us / 1e6)} ms of them "
        "are above the operators' limits."
    )
    return PageText(text), PageText(f"Inputs: {item.shapes}."), PageText(lost)


def _operators(found: Explanation) -> tuple[PageChart, PageText]:
    labels, rows = _labels(found.rows), found.rows
    times = sorted(zip(labels, rows, strict=True), key=lambda pair: -pair[1].microseconds)
    bars = [_bar(label, row) for label, row in times]
    table = PageTable(
        "The operators, those first that lose most time",
        _OPERATORS,
        tuple(_row(label, row) for label, row in zip(labels, rows, strict=True)),
        _OPERATORS_LEFT,
    )
    alt = f"Bars: the time of {len(bars)} operators; {bars[0].label} takes longest."
    spec = noisy_bars(bars, "operator", "us in one run")
    note = PageText(f"The thin lines are one spread to both sides. {_LIMITS}")
    return PageChart("Time of each operator in one run", alt, spec, table), note


def _bar(label: str, row: ExplainRow) -> NoisyBar:
    time, spread = row.microseconds, row.microseconds * (row.spread_percent or 0.0) / 100
    return NoisyBar(label, time, max(0.0, time - spread), time + spread)


def _labels(rows: Sequence[ExplainRow]) -> list[str]:
    """A label of each operator; equal ones are numbered."""
    names = [row.op or row.layers for row in rows]
    times, seen, labels = Counter(names), Counter[str](), []
    for name in names:
        seen[name] += 1
        labels.append(name if times[name] == 1 else f"{name} {seen[name]}")
    return labels


def _row(label: str, row: ExplainRow) -> tuple[str, ...]:
    limited = row.bound != ""
    return (
        label,
        row.layers,
        row.shapes,
        significant(row.microseconds, 1),
        "" if row.spread_percent is None else f"{row.spread_percent:.0f}",
        percent(row.percent / 100),
        significant(row.limit_us, 1) if limited else "",
        significant(row.lost_us, 1),
        row.bound,
        row.task[:8],
        schedule_label(row.schedule, row.algorithm),
    )


def _roofline(found: Explanation) -> PageChart | PageText:
    points = [
        RooflinePoint(label, row.gflops / row.gigabytes_per_s, row.gflops, row.percent / 100)
        for label, row in zip(_labels(found.rows), found.rows, strict=True)
        if row.gflops > 0 and row.gigabytes_per_s > 0
    ]
    if not points:
        return PageText("No operator has both operations and traffic.")
    return roofline_chart(points, found.machine, "operator")


def _machine(item: TimedModule) -> tuple[PageTable | PageText, ...]:
    machine = item.explanation.machine
    plan = PageTable(
        "Operators in the order of execution", HEADER, tuple(program_rows(item.program)), LEFT
    )
    versions = ", ".join(f"{name} {number}" for name, number in software_versions().items())
    facts = (
        f"{item.program.target.label}, {machine.workers}: {four_digits(machine.flops / 1e9)} "
        f"GFLOP/s of float32 multiply-adds, {four_digits(machine.bandwidth / 1e9)} GB/s "
        f"({machine.how}).",
        *program_totals(item.program),
        f"This page was made by autosched {__version__}; {versions}.",
    )
    return plan, *map(PageText, facts)
