"""From records to the file of a report."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING

from autosched.page.blocks import PageSection
from autosched.page.document import document
from autosched.page.file import ReportPage, library, written
from autosched.report.page.choices import (
    landscape_section,
    prediction_section,
    variants_section,
)
from autosched.report.page.convergence import convergence_section, trials_section
from autosched.report.page.graph import network_section
from autosched.report.page.network import operators_of
from autosched.report.page.outcome import failures_section, machine_section
from autosched.report.page.overview import overview_section
from autosched.report.page.roofs import Roofs, roofline_section, roofs_of
from autosched.report.page.schedules import comparison_section, schedules_section
from autosched.report.page.subject import ReportSubject, runs_of

if TYPE_CHECKING:
    from autosched.graph.extract import Extraction
    from autosched.records.record import Record
    from autosched.tasks.spec import TaskSpec


def sections_of(subject: ReportSubject, roofs: Roofs) -> tuple[PageSection, ...]:
    """Everything that a report says, in order."""
    return (
        overview_section(subject),
        network_section(subject),
        roofline_section(subject, roofs),
        convergence_section(subject),
        trials_section(subject),
        variants_section(subject),
        prediction_section(subject),
        landscape_section(subject),
        schedules_section(subject),
        failures_section(subject),
        comparison_section(subject),
        machine_section(subject),
    )


def report(subject: ReportSubject, path: str | PathLike[str] | None) -> ReportPage:
    """The page, written to ``path`` unless that is None.

    Raises:
        MissingPackageError: what draws the charts is not installed.
        OptionError: the file cannot be written.
    """
    bundle = library()
    text = page_text(subject, roofs_of(subject), bundle)
    return written(text, path)


def report_tuning(
    path: str | PathLike[str] | None,
    name: str,
    records: Sequence[Record],
    tasks: Sequence[TaskSpec],
    extraction: Extraction | None = None,
) -> ReportPage:
    """The page of what was measured for some tasks.

    Args:
        path: of a file that it is written to; None: none.
        name: of what was tuned.
        records: of any tasks.
        tasks: those that the page is about.
        extraction: the network that they are of; None: there is none.

    Raises:
        RecordError: the tasks have no record.
        MissingPackageError: what draws the charts is not installed.
        OptionError: the file cannot be written.
    """
    specs = {task.key: task for task in tasks}
    runs = runs_of(name, [record for record in records if record.task in specs], specs)
    operators = () if extraction is None else operators_of(extraction)
    return report(ReportSubject(f"Tuning report: {name}", runs, specs, operators), path)


def page_text(subject: ReportSubject, roofs: Roofs, bundle: str, version: str | None = None) -> str:
    """The page.

    Args:
        subject: what it is about.
        roofs: what the machine can do.
        bundle: JavaScript that defines ``vegaEmbed``.
        version: of a page that is served; None: it is a file.
    """
    names: Sequence[str] = [run.name for run in subject.runs]
    intro = f"What autosched measured: {', '.join(names)}."
    return document(subject.title, intro, sections_of(subject, roofs), bundle, version)
