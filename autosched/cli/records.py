"""``autosched records``: looking into logs and cutting them down."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autosched.cli.command import (
    Command,
    Parser,
    UsageError,
    add_command,
    add_json,
    positive_int,
    say,
    write_json,
)
from autosched.cli.model import open_network
from autosched.system.user_warnings import notify

if TYPE_CHECKING:
    from autosched.records.reading import RecordSet
    from autosched.records.record import Record

_EXAMPLES = """\
  autosched records stats resnet-18.jsonl                  trials, failures, best time per task
  autosched records best resnet-18.jsonl                   the best schedule of each task
  autosched records merge a.jsonl b.jsonl -o all.jsonl     several logs into one
  autosched records prune resnet-18.jsonl --top 8          only the 8 best of each task
  autosched records prune in.jsonl -o out.jsonl --top 1 --model resnet-18     and what replays
  autosched records distill out/*.jsonl -o logs            small logs to keep: the best of each task
  autosched records csv resnet-18.jsonl -o trials.csv      all trials as a table
"""


def _read(paths: Sequence[str]) -> RecordSet:
    from autosched.records.merge import read_all

    found = read_all(paths)
    notify(found.warnings)
    return found


def _log_argument(parser: Parser) -> None:
    parser.add_argument("logs", metavar="LOG", nargs="+", help="one or more logs")


def _stats_arguments(parser: Parser) -> None:
    _log_argument(parser)
    add_json(parser)


def _stats(args: argparse.Namespace) -> None:
    from autosched.records.stats import stats
    from autosched.runtime.table import render_table

    found = stats(_read(args.logs).records)
    write_json(args.json, [item.to_json() for item in found])
    rows = [
        (
            item.task,
            f"{item.target.arch}/{item.target.threads}",
            str(item.trials),
            "-" if item.best_s is None else f"{item.best_s * 1e6:.1f}",
            item.variant,
            ", ".join(f"{cause} x{count}" for cause, count in item.failures.items()),
        )
        for item in found
    ]
    header = ("task", "target/threads", "trials", "best us", "variant", "failures")
    say(args, render_table(header, rows, left=(0, 1, 4, 5)))


def _best(args: argparse.Namespace) -> None:
    from autosched.records.best import comparable, rank

    for (task, target, state), group in comparable(_read(args.logs).records).items():
        place, ranked = f"{task} on {target.arch}/{target.threads}", rank(group)
        if not ranked:
            say(args, f"{place}: no success in {len(group)} trials")
            continue
        seconds, record = ranked[0]
        say(args, f"{place}, {state}: {seconds * 1e6:.1f} us, {record.variant}")
        say(args, "  " + ", ".join(f"{name}={value}" for name, value in record.decisions.items()))


def _merge_arguments(parser: Parser) -> None:
    _log_argument(parser)
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the merged log")


def _merge(args: argparse.Namespace) -> None:
    from autosched.records.merge import merge

    _report_written(args, merge(args.logs, args.output), args.output)


def _prune_arguments(parser: Parser) -> None:
    parser.add_argument("log", metavar="LOG")
    parser.add_argument(
        "--top", "--keep", dest="keep", type=positive_int, default=16, metavar="N",
        help="candidates a task, target and cache state (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--model", metavar="MODEL",
        help="a network of the zoo or an .onnx file: only keep what replays in its operators",
    )  # fmt: skip
    parser.add_argument("-o", "--output", metavar="FILE", help="default: LOG itself")


def _prune(args: argparse.Namespace) -> None:
    from autosched.records.merge import prune, replace_log, unique
    from autosched.records.reading import RecordSet

    output = args.log if args.output is None else args.output
    found = _read([args.log])
    records = unique(found.records)
    if args.model is not None:
        records = _replayable(records, args.model)
    records = prune(records, args.keep)
    replace_log(records, output)
    _report_written(args, RecordSet(records), output)


def _replayable(records: Sequence[Record], model: str) -> tuple[Record, ...]:
    from autosched.compilation.network import extract_checked, network_tasks
    from autosched.search.replayable import replayable

    extraction = extract_checked(open_network(model))
    kept, lines = replayable(records, lambda target: network_tasks(extraction, target))
    notify(lines)
    return kept


def _distill_arguments(parser: Parser) -> None:
    _log_argument(parser)
    parser.add_argument("-o", "--output", metavar="DIR", required=True,
                        help="one log for each, of the same name, is written here")  # fmt: skip


def _distill(args: argparse.Namespace) -> None:
    from autosched.records.merge import merge

    names = [Path(log).name for log in args.logs]
    if len(set(names)) < len(names):
        raise UsageError("two logs have one name", ", ".join(args.logs), "distill them one by one")
    for log, name in zip(args.logs, names, strict=True):
        output = Path(args.output) / name
        _report_written(args, merge([log], output, keep=1), str(output))


def _report_written(args: argparse.Namespace, written: RecordSet, output: str) -> None:
    notify(written.warnings)
    size = Path(output).stat().st_size
    say(args, f"{output}: {len(written.records)} records, {size / 1e3:.1f} kB")


def _csv_arguments(parser: Parser) -> None:
    _log_argument(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="default: stdout")


def _csv(args: argparse.Namespace) -> None:
    from autosched.records.rows import print_csv

    found = _read(args.logs)
    if args.output is None:
        print_csv(found.records, sys.stdout)
    else:
        found.to_csv(args.output)


_ACTIONS = (
    Command("stats", "trials, failures by cause and best time of each task",
            "One row a task and target.", _EXAMPLES, _stats_arguments, _stats),
    Command("best", "the best schedule of each task",
            "Time, variant and decisions of the fastest candidate of each task, target and state\n"
            "of the caches.",
            _EXAMPLES, _log_argument, _best),
    Command("merge", "several logs into one, without repetitions",
            "Writes the records of all logs to one file, which may be one of them.",
            _EXAMPLES, _merge_arguments, _merge),
    Command("prune", "keep only the best candidates of each task",
            "Replaces a log by its fastest candidates: --top 1 makes logs of some kilobytes that\n"
            "compile to the same networks.", _EXAMPLES, _prune_arguments, _prune),
    Command("distill", "keep only the best candidate of each task, log by log",
            "Writes small logs that compile to the same networks.  Tuning with --skip-tuned\n"
            "goes on from them: only tasks that are new get trials.",
            _EXAMPLES, _distill_arguments, _distill),
    Command("csv", "all trials as a table", "One row a trial, one column a field.",
            _EXAMPLES, _csv_arguments, _csv),
)  # fmt: skip


def _arguments(parser: Parser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, title="actions")
    for action in _ACTIONS:
        add_command(actions, action)


COMMAND = Command(
    "records",
    "look into logs, merge them, cut them down",
    "A log is a text file with one JSON object a line, one line a measured candidate.",
    _EXAMPLES,
    _arguments,
    None,
)
