"""From records to the file of a report."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autosched.report.page.blocks import PageSection
from autosched.report.page.choices import (
    landscape_section,
    prediction_section,
    variants_section,
)
from autosched.report.page.convergence import convergence_section, trials_section
from autosched.report.page.document import document
from autosched.report.page.graph import network_section
from autosched.report.page.network import operators_of
from autosched.report.page.outcome import failures_section, machine_section
from autosched.report.page.overview import overview_section
from autosched.report.page.roofs import Roofs, roofline_section, roofs_of
from autosched.report.page.schedules import comparison_section, schedules_section
from autosched.report.page.subject import ReportSubject, runs_of
from autosched.system.errors import OptionError
from autosched.system.optional_packages import require
from autosched.system.replaced_file import replaced_file

if TYPE_CHECKING:
    from autosched.graph.extract import Extraction
    from autosched.records.record import Record
    from autosched.tasks.spec import TaskSpec

_BUNDLED: Final = "window.vegaEmbed = vegaEmbed;"  # what the page's script calls


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


def check_library() -> None:
    """Raise MissingPackageError unless what draws the charts is installed."""
    require("vl_convert", "reports", '"autosched[report]"')


def library() -> str:
    """JavaScript that defines ``vegaEmbed``; takes about a second.

    Raises:
        MissingPackageError: the package that has it is not installed.
    """
    check_library()
    import vl_convert

    return str(vl_convert.javascript_bundle(_BUNDLED))


def write_report(subject: ReportSubject, path: str | PathLike[str]) -> None:
    """Write one HTML file that needs nothing else.

    Raises:
        MissingPackageError: what draws the charts is not installed.
        OptionError: the file cannot be written.
    """
    bundle = library()
    text = page_text(subject, roofs_of(subject), bundle)
    try:
        with replaced_file(Path(path)) as partial:
            # Names of files may hold what is no character.
            partial.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise OptionError(
            f"the report cannot be written: {error.strerror}", str(path), "choose another file"
        ) from error


def report_tuning(
    path: str | PathLike[str],
    name: str,
    records: Sequence[Record],
    tasks: Sequence[TaskSpec],
    extraction: Extraction | None = None,
) -> None:
    """Write the page of what was measured for some tasks.

    Args:
        path: of the file.
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
    write_report(ReportSubject(f"Tuning report: {name}", runs, specs, operators), path)


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
