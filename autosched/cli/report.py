"""``autosched report``: what logs say, as one page for a browser."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from autosched.cli.command import (
    Command,
    Parser,
    UsageError,
    check_apart,
    check_output,
    given_files,
    named_shape,
    say,
)
from autosched.cli.model import add_values, open_network
from autosched.cli.waiting import Waiting
from autosched.system.user_warnings import notify

if TYPE_CHECKING:
    from autosched.graph.extract import Extraction
    from autosched.records.reading import RecordSet
    from autosched.report.page.subject import ReportSubject
    from autosched.tasks.spec import TaskSpec
    from sketch.target.target import Target

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
    """--model, --shape and --value."""
    parser.add_argument(
        "--model", metavar="MODEL",
        help="the network that was tuned, of the zoo or an .onnx file: weights, graph, roofline "
        "and loops come from it",
    )  # fmt: skip
    parser.add_argument(
        "--shape", dest="shapes", type=named_shape, action="append", metavar="INPUT=1,3,224,224",
        help="shape of an input that an .onnx file leaves open; once for each such input",
    )  # fmt: skip
    add_values(parser)


def _run(args: argparse.Namespace) -> None:
    from autosched.page.file import check_library
    from autosched.report.page.writing import report
    from autosched.runtime.table import size_text

    check_library()
    check_apart(args.output, given_files(args))
    check_output(args.output)
    extracted = reported_network(args)
    logs = dict(zip(_names(args.logs), map(_read, args.logs), strict=True))
    with Waiting("making the report", args.quiet):
        report(subject_of(args.model, logs, extracted), args.output)
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


def reported_network(args: argparse.Namespace) -> Callable[[Target], Extraction] | None:
    """The network that --model names, as it is on a machine.

    Raises:
        UsageError: there is none, but a shape or a value of its inputs.
        AutoschedError: it cannot be read.
    """
    from autosched.compilation.network import extract_checked

    if args.model is None:
        for option, given in (("--shape", args.shapes), ("--value", args.values)):
            if given:
                raise UsageError(f"{option} is for --model", "", "name the model")
        return None
    network = open_network(args.model, args.shapes, args.values)
    return cache(lambda target: extract_checked(network, target))


def subject_of(
    model: str | None,
    logs: Mapping[str, RecordSet],
    extracted: Callable[[Target], Extraction] | None,
) -> ReportSubject:
    """What the page of some logs is about.

    Raises:
        RecordError: a log has no record, or records of other tasks than the network's.
    """
    from autosched.compilation.network import network_tasks
    from autosched.report.page.network import NetworkOperator, operators_of
    from autosched.report.page.subject import ReportSubject, runs_of

    specs: dict[str, TaskSpec] = {}
    operators: tuple[NetworkOperator, ...] = ()
    first = next(iter(logs.values()))
    if extracted is not None and first.records:
        machine = first.records[-1].target  # that of the first log
        extraction = extracted(machine)
        specs = {task.key: task for task in network_tasks(extraction, machine)}
        operators = operators_of(extraction)
    runs = [run for log, found in logs.items() for run in runs_of(log, found.records, specs)]
    warnings = [warning for found in logs.values() for warning in found.warnings]
    title = f"Tuning report: {model or next(iter(logs))}"
    return ReportSubject(title, tuple(runs), specs, operators, tuple(warnings))


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
