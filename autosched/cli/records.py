"""``autosched records``: looking into logs and cutting them down."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autosched.cli.command import (
    STDOUT,
    Command,
    Parser,
    UsageError,
    add_actions,
    add_json,
    check_apart,
    check_output,
    positive_int,
    say,
    write_json,
)
from autosched.cli.model import open_network
from autosched.system.numbers import counted, significant
from autosched.system.user_warnings import notify

if TYPE_CHECKING:
    from autosched.records.reading import RecordSet
    from autosched.records.record import Record
    from autosched.records.store import RecordStore
    from sketch.target.target import Target

# Of a title in a table.
_TITLE_WIDTH: Final = 64
_EXAMPLES = """\
  autosched records stats resnet-18.jsonl                  trials, failures, best time per task
  autosched records best resnet-18.jsonl                   the best schedule of each task
  autosched records merge a.jsonl b.jsonl -o all.jsonl     several logs into one
  autosched records prune resnet-18.jsonl --top 8          only the 8 best of each task
  autosched records prune in.jsonl -o out.jsonl --top 1 --model resnet-18     and what replays
  autosched records distill out/*.jsonl -o logs            small logs to keep: the best of each task
  autosched records import *.jsonl --into sqlite:///team.db            files into a database
  autosched records merge sqlite:///team.db -o all.jsonl               and a database into a file
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
    if not found:
        say(args, _nothing(args.logs))
        return
    rows = [
        (
            _label(item.title, item.task),
            _machine(item.target),
            str(item.trials),
            "-" if item.best_trial is None else str(item.best_trial),
            "-" if item.best_s is None else significant(item.best_s * 1e6, 1),
            _speed(item.gflops),
            item.variant,
            ", ".join(f"{cause} x{count}" for cause, count in item.failures.items()),
        )
        for item in found
    ]
    header = ("task", "target", "trials", "best at", "best us", "GFLOP/s", "variant", "failures")
    say(args, render_table(header, rows, left=(0, 1, 6, 7)))


def _best(args: argparse.Namespace) -> None:
    from autosched.records.best import comparable, rank
    from autosched.runtime.table import render_table

    rows = []
    for (task, target, state), group in comparable(_read(args.logs).records).items():
        ranked = rank(group)
        place = f"{_machine(target)} {state or ''}"
        if ranked:
            rows.append((_title(group, task), place, *_fastest(*ranked[0], group)))
        else:
            none = f"no success in {len(group)} trials"
            rows.append((_title(group, task), place, "-", "-", "-", none))
    if not rows:
        say(args, _nothing(args.logs))
        return
    header = ("task", "target, caches", "best us", "GFLOP/s", "trial", "schedule")
    say(args, render_table(header, rows, left=(0, 1, 5)))


def _nothing(logs: Sequence[str]) -> str:
    from autosched.records.store import log_name

    return f"{', '.join(map(log_name, logs))}: no records"


def _fastest(seconds: float, record: Record, group: Sequence[Record]) -> tuple[str, str, str, str]:
    from autosched.records.stats import trial_number
    from autosched.records.structure import structure

    speed = None if record.title is None else record.title.flops / seconds / 1e9
    number = str(trial_number(record, group))
    return significant(seconds * 1e6, 1), _speed(speed), number, structure(record)


def _title(group: Sequence[Record], task: str) -> str:
    title = next((record.title.text for record in group if record.title is not None), None)
    return _label(title, task)


def _label(title: str | None, task: str) -> str:
    """What a task is called; its key where the log does not say."""
    from autosched.runtime.table import shorten

    return task if title is None else shorten(title, _TITLE_WIDTH)


def _machine(target: Target) -> str:
    return f"{target.label}/{target.threads}"


def _speed(gflops: float | None) -> str:
    return "-" if gflops is None else significant(gflops, 1)


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
    parser.add_argument(
        "-o", "--output", metavar="FILE",
        help="default: LOG itself; what it was is kept beside it as LOG.bak, unless it is a "
        "database; so is another log that is there",
    )  # fmt: skip


def _prune(args: argparse.Namespace) -> None:
    from autosched.records.backup import backed_up
    from autosched.records.errors import RecordError
    from autosched.records.log import RecordLog
    from autosched.records.merge import check_lossless, prune, spared
    from autosched.records.store import open_store
    from autosched.records.unique import unique

    output = args.log if args.output is None else args.output
    check_lossless([args.log], output)
    found = _read([args.log])
    records = unique(found.records)
    if args.model is not None:
        records = _replayable(records, args.model)
        if found.records and not records:
            raise RecordError(
                "no record is of a task of this network", args.log, "name another model"
            )
    records = prune(records, args.keep)
    store = open_store(output)
    if args.output is None and isinstance(store, RecordLog):
        copy: Path | None = backed_up(store.path)
    else:
        copy = spared(output, found.records)
    # What is added from now on stays, unless other records are replaced, which the copy has.
    own = found.records if copy is None or output == args.log else None
    kept = "" if copy is None else f"; what it was is in {copy}"
    store.replace(records, own)
    change = f"{len(found.records)} -> {counted(len(records), 'record')}"
    say(args, f"{store.name}: {change}{_size(store)}{kept}")


def _replayable(records: Sequence[Record], model: str) -> tuple[Record, ...]:
    from autosched.compilation.network import extract_checked, network_tasks
    from autosched.search.replayable import replayable

    network = open_network(model)
    kept, lines = replayable(
        records, lambda target: network_tasks(extract_checked(network, target), target)
    )
    notify(lines)
    return kept


def _distill_arguments(parser: Parser) -> None:
    _log_argument(parser)
    parser.add_argument("-o", "--output", metavar="DIR", required=True,
                        help="one log for each, of the same name, is written here")  # fmt: skip


def _distill(args: argparse.Namespace) -> None:
    from autosched.records.merge import merge

    names = [_file_name(log) for log in args.logs]
    if len(set(names)) < len(names):
        raise UsageError("two logs have one name", ", ".join(names), "distill them one by one")
    folder = Path(args.output)
    if folder.exists() and not folder.is_dir():
        raise UsageError("-o names a file, not a folder", args.output, "name a folder")
    outputs = [folder / name for name in names]
    for output in outputs:
        check_apart(output, args.logs)
    for log, output in zip(args.logs, outputs, strict=True):
        _report_written(args, merge([log], output, keep=1), str(output))


def _file_name(log: str) -> str:
    """Of the small log of a log: its own, or that of a database and ``.jsonl``."""
    from autosched.records.log import RecordLog
    from autosched.records.store import open_store

    store = open_store(log)
    if isinstance(store, RecordLog):
        return store.path.name
    return Path(store.name.partition("?")[0]).with_suffix(".jsonl").name


def _report_written(args: argparse.Namespace, written: RecordSet, output: str) -> None:
    from autosched.records.store import open_store

    notify(written.warnings)
    store = open_store(output)
    say(args, f"{store.name}: {counted(len(written.records), 'record')}{_size(store)}")


def _size(store: RecordStore) -> str:
    """What a store takes, to be appended to a line about it; "" where it is not here."""
    from autosched.runtime.table import size_text

    size = store.size_bytes()
    return "" if size is None else f", {size_text(size)}"


def _csv_arguments(parser: Parser) -> None:
    _log_argument(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="default: stdout")


def _csv(args: argparse.Namespace) -> None:
    from autosched.records.rows import print_csv

    output = None if args.output == STDOUT else args.output
    check_apart(output, args.logs)
    check_output(output)
    found = _read(args.logs)
    if output is None:
        print_csv(found.records, sys.stdout)
    else:
        found.to_csv(output)


def _import_arguments(parser: Parser) -> None:
    _log_argument(parser)
    parser.add_argument("--into", metavar="LOG", required=True, help="a database, or a file")


def _import(args: argparse.Namespace) -> None:
    from autosched.records.store import open_store

    store = open_store(args.into)
    store.check_writable()
    found = _read(args.logs)
    added = store.add_new(found.records)
    there = len(found.records) - added
    say(args, f"{store.name}: {counted(added, 'record')} added, {there} were there")


def _upgrade_arguments(parser: Parser) -> None:
    parser.add_argument("url", metavar="URL", help="of a database")


def _upgrade(args: argparse.Namespace) -> None:
    from autosched.records.log import RecordLog
    from autosched.records.store import open_store

    store = open_store(args.url)
    if isinstance(store, RecordLog):
        raise UsageError("a file of JSON lines needs no upgrade", args.url, "give a URL")
    store.upgrade()
    say(args, f"{store.name} has the schema of this release")


_ACTIONS = (
    Command("stats", "trials, failures by cause and best time of each task",
            "One row a task and target; \"best at\" is the trial that found its best time.  A\n"
            "task is called by its key where the log has no title of it.",
            _EXAMPLES, _stats_arguments, _stats),
    Command("best", "the best schedule of each task",
            "The fastest candidate of each task, target and state of the caches: its time, the\n"
            "trial that found it, and what its schedule does.  `autosched explain` shows loops.",
            _EXAMPLES, _log_argument, _best),
    Command("merge", "several logs into one, without repetitions",
            "Writes the records of all logs to one file, which may be one of them.  Another log\n"
            "that is there and has records of its own is kept as FILE.bak.",
            _EXAMPLES, _merge_arguments, _merge),
    Command("prune", "keep only the best candidates of each task",
            "Replaces a log by its fastest candidates: --top 1 makes logs of some kilobytes that\n"
            "compile to the same networks.  Without -o the whole log is kept as LOG.bak.",
            _EXAMPLES, _prune_arguments, _prune),
    Command("distill", "keep only the best candidate of each task, log by log",
            "Writes small logs that compile to the same networks.  Tuning with --skip-tuned\n"
            "goes on from them: only tasks that are new get trials.",
            _EXAMPLES, _distill_arguments, _distill),
    Command("import", "add the records of logs to a database, or to another log",
            "Adds what is not there yet, so it may be repeated.  `merge` writes a database to a\n"
            "file of JSON lines.", _EXAMPLES, _import_arguments, _import),
    Command("upgrade", "bring a database to the schema of this release",
            "Newer releases may need other tables.  Older releases cannot read the database then;\n"
            "records stay as they are.", _EXAMPLES, _upgrade_arguments, _upgrade),
    Command("csv", "all trials as a table", "One row a trial, one column a field.",
            _EXAMPLES, _csv_arguments, _csv),
)  # fmt: skip


def _arguments(parser: Parser) -> None:
    add_actions(parser, _ACTIONS)


COMMAND = Command(
    "records",
    "look into logs, merge them, cut them down",
    "A log is a text file with one JSON object a line, one line a measured candidate.",
    _EXAMPLES,
    _arguments,
    None,
)
