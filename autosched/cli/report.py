"""``autosched report``: what logs say, as one page for a browser."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autosched.cli.command import Command, Parser, UsageError, check_output, named_shape, say
from autosched.cli.model import open_network
from autosched.cli.waiting import Waiting
from autosched.system.user_warnings import notify

if TYPE_CHECKING:
    from autosched.graph.extract import Extraction
    from autosched.records.reading import RecordSet
    from autosched.report.page.subject import ReportSubject
    from autosched.tasks.spec import TaskSpec

_EXAMPLES = """\
  autosched report resnet-18.jsonl -o report.html                      what the log alone says
  autosched report resnet-18.jsonl --model resnet-18 -o report.html    with roofline and graph
  autosched report new.jsonl old.jsonl -o report.html                  two logs against each other
"""


def _arguments(parser: Parser) -> None:
    parser.add_argument("logs", metavar="LOG", nargs="+", help="one log, or several to compare")
    parser.add_argument("-o", "--output", metavar="FILE", default="report.html",
                        help="the page (default: %(default)s)")  # fmt: skip
    add_model(parser)


def add_model(parser: Parser) -> None:
    """--model and --shape."""
    parser.add_argument(
        "--model", metavar="MODEL",
        help="the network that was tuned, of the zoo or an .onnx file: weights, graph, roofline "
        "and loops come from it",
    )  # fmt: skip
    parser.add_argument(
        "--shape", dest="shapes", type=named_shape, action="append", metavar="INPUT=1,3,224,224",
        help="shape of an input that an .onnx file leaves open; once for each such input",
    )  # fmt: skip


def _run(args: argparse.Namespace) -> None:
    from autosched.page.file import check_library
    from autosched.report.page.writing import report
    from autosched.runtime.table import size_text

    check_library()
    check_output(args.output)
    extraction = reported_network(args)
    logs = dict(zip(_names(args.logs), map(_read, args.logs), strict=True))
    with Waiting("making the report", args.quiet):
        report(subject_of(args.model, logs, extraction), args.output)
    say(args, f"{args.output}: {size_text(Path(args.output).stat().st_size)}")


def _read(path: str) -> RecordSet:
    from autosched.records.merge import read_all

    found = read_all([path])
    notify(found.warnings)
    return found


def _names(logs: Sequence[str]) -> list[str]:
    """What the page calls the logs: without their folders, where these do not tell them apart."""
    from autosched.records.store import log_name

    whole = [log_name(log) for log in logs]
    names = [Path(log).name for log in whole]
    found = names if len(set(names)) == len(names) else whole
    if len(set(found)) < len(found):
        raise UsageError("a log is named twice", ", ".join(whole), "name each once")
    return found


def reported_network(args: argparse.Namespace) -> Extraction | None:
    """The network that --model names.

    Raises:
        UsageError: there is none, but a shape of its inputs.
        AutoschedError: it cannot be read.
    """
    from autosched.compilation.network import extract_checked

    if args.shapes and args.model is None:
        raise UsageError("--shape is for --model", "", "name the model")
    return None if args.model is None else extract_checked(open_network(args.model, args.shapes))


def subject_of(
    model: str | None, logs: Mapping[str, RecordSet], extraction: Extraction | None
) -> ReportSubject:
    """What the page of some logs is about.

    Raises:
        RecordError: a log has no record, or records of other tasks than the network's.
    """
    from autosched.report.page.network import operators_of
    from autosched.report.page.subject import ReportSubject, runs_of

    first = next(iter(logs.values()))
    specs = {} if extraction is None else _tasks(extraction, first)
    runs = [run for log, found in logs.items() for run in runs_of(log, found.records, specs)]
    warnings = [warning for found in logs.values() for warning in found.warnings]
    operators = () if extraction is None else operators_of(extraction)
    title = f"Tuning report: {model or next(iter(logs))}"
    return ReportSubject(title, tuple(runs), specs, operators, tuple(warnings))


def _tasks(extraction: Extraction, first: RecordSet) -> dict[str, TaskSpec]:
    """The network's tasks for the machine of the first log, by their keys."""
    from autosched.compilation.network import network_tasks

    if not first.records:
        return {}
    return {task.key: task for task in network_tasks(extraction, first.records[-1].target)}


COMMAND = Command(
    "report",
    "show what logs say as one HTML page",
    "One file that works without a network: times with their noise, the network as a graph, the\n"
    "roofline, convergence over trials and seconds, where the trials went, failures, machines.\n"
    "Every chart has its table.  With --model of the first log, roofs are measured on this\n"
    "machine if the log is of it.",
    _EXAMPLES,
    _arguments,
    _run,
)
