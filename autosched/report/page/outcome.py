"""Sections on the rest of a log: failures by kind, machines and versions."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Final

from autosched.measure.result import Failure
from autosched.page.blocks import PageChart, PageSection, PageTable, PageText
from autosched.page.words import bars_height
from autosched.records.identity import instructions
from autosched.records.record import Record
from autosched.report.page.subject import ReportRun, ReportSubject, machine
from autosched.system.release import __version__

_TITLE = "Failures"
# Characters of the message of a failure.
_MESSAGE: Final = 160
# What calendars end with: the year 9999, in seconds since 1970.
_LAST_YEAR_S: Final = 253_402_300_800


def failures_section(subject: ReportSubject) -> PageSection:
    """How often each kind of failure occurred, with an example of each."""
    run = subject.main
    examples: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for record in run.records:
        if isinstance(record.result, Failure):
            kind = f"{record.result.stage}: {record.result.kind}"
            examples.setdefault(kind, record.result.message)
            counts[kind] += 1
    if not counts:
        text = f"None of {len(run.records)} records is a failure."
        return PageSection("failures", _TITLE, (PageText(text),))
    values = [{"kind": kind, "trials": number} for kind, number in counts.most_common()]
    spec = {
        "data": {"values": values},
        "width": "container",
        "height": bars_height(len(counts)),
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "y": {"field": "kind", "type": "nominal", "sort": None, "title": None},
            "x": {"field": "trials", "type": "quantitative", "title": "trials"},
        },
    }
    rows = tuple(
        (kind, str(number), " ".join(examples[kind].split())[:_MESSAGE])
        for kind, number in counts.most_common()
    )
    header = ("stage and kind", "trials", "for example")
    table = PageTable("Failures by kind", header, rows, (0, 2))
    alt = f"Bars: {counts.total()} failures of {len(counts)} kinds."
    chart = PageChart("Failures by kind", alt, spec, table)
    return PageSection("failures", _TITLE, (chart, _by_task(run)))


def _by_task(run: ReportRun) -> PageTable:
    rows = []
    for task in run.tasks:
        failed = sum(isinstance(record.result, Failure) for record in task.records)
        if failed:
            rows.append((task.label, str(failed), str(len(task.records))))
    rows.sort(key=lambda row: -int(row[1]))
    return PageTable("Failures by task", ("task", "failed", "of records"), tuple(rows))


def machine_section(subject: ReportSubject) -> PageSection:
    """The machines and the versions of each run, and what of the logs could not be read."""
    rows: list[tuple[str, str, str]] = []
    for run in subject.runs:
        rows += [(run.name, what, value) for what, value in _facts(run)]
    made = f"This page was made by autosched {__version__}."
    table = PageTable(
        "Where the times were taken", ("run", "what", "value"), tuple(rows), (0, 1, 2)
    )
    lines = tuple(PageText(f"Warning: {warning}") for warning in subject.warnings)
    return PageSection("machine", "Machine and versions", (table, PageText(made), *lines))


def _facts(run: ReportRun) -> list[tuple[str, str]]:
    target = run.target
    caches = (target.l1_bytes, target.l2_bytes, target.l3_bytes)
    versions = dict.fromkeys(
        ", ".join(f"{name} {version}" for name, version in record.versions.items())
        for record in run.records
    )
    facts = [
        ("machine", f"{target.kind} {machine(target)}, {8 * target.vector_bytes} bit vectors"),
        ("instructions", ", ".join(instructions(target))),
        ("caches, KiB", ", ".join(f"{size / 1024:g}" for size in caches)),
        ("versions", "; ".join(filter(None, versions))),
        ("seeds", ", ".join(map(str, dict.fromkeys(record.seed for record in run.records)))),
        ("measured", _period(run.records)),
        ("records", str(len(run.records))),
    ]
    if target.card.emulated:
        facts.append(("times", "estimates of an emulated device: nothing was timed"))
    return [(what, value) for what, value in facts if value]


def _period(records: tuple[Record, ...]) -> str:
    """The days of the first and the last record, in UTC; "" where the log does not say."""
    times = [record.time for record in records if 0 < record.time < _LAST_YEAR_S]
    if not times:
        return ""
    first, last = (datetime.fromtimestamp(at, UTC) for at in (min(times), max(times)))
    return f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"
