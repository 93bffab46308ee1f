"""``autosched costmodel``: corpora to learn from, and how well cost models rank."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Final

from autosched.cli.collect import COLLECT, EXAMPLES
from autosched.cli.command import (
    Command,
    Parser,
    UsageError,
    add_command,
    add_json,
    say,
    write_json,
)
from autosched.cli.model import add_model, check_log, open_subject, target_of
from autosched.cli.waiting import Waiting
from autosched.search.models import MODELS, make_model
from autosched.system.user_warnings import notify

if TYPE_CHECKING:
    from autosched.cli.subject import Subject
    from costmodel.evaluation import Evaluation

_METRICS: Final = ("top_1", "top_5", "pairwise", "peak_1", "peak_5", "best_1")


def _eval_arguments(parser: Parser) -> None:
    add_model(parser, compiled=False)
    parser.add_argument("--log", metavar="FILE", required=True, help="records of tuning MODEL")
    parser.add_argument(
        "--cost-model", choices=MODELS, metavar="NAME", action="append",
        help="gbdt, forest, ridge, draft, random; may be repeated (default: all of them)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, metavar="N",
                        help="of the models and of what is held out (default: 0)")  # fmt: skip
    add_json(parser)


def _eval(args: argparse.Namespace) -> None:
    check_log(args.log)
    subject = open_subject(args)
    with Waiting(f"judging cost models on {subject.label}", args.quiet):
        found = _evaluations(args, subject)
    say(args, _table(found))
    rows = [{"cost_model": name, **asdict(item)} for name, item in found]
    write_json(args.json, {subject.kind: subject.label, "log": args.log, "rows": rows})


def _evaluations(args: argparse.Namespace, subject: Subject) -> list[tuple[str, Evaluation]]:
    """How each of the cost models does, for each way to hold something out."""
    from autosched.records.log import RecordLog
    from autosched.study import recorded_dataset
    from costmodel.evaluation import SPLITS, evaluate

    log = RecordLog(args.log).read()
    notify(log.warnings)
    dataset = recorded_dataset(subject.tasks(target_of(args)), log.records)
    if not len(dataset):
        raise UsageError(
            f"no record of {subject.label} for this target",
            args.log,
            "tune first, or see --threads",
        )
    splits = [split for split in SPLITS if split != "by-task" or len(dataset.tasks) > 1]
    return [
        (name, evaluate(dataset, partial(make_model, name, args.seed), split, args.seed))
        for split in splits
        for name in args.cost_model or MODELS
    ]


def _table(found: list[tuple[str, Evaluation]]) -> str:
    from autosched.runtime.table import render_table

    rows = [
        (item.split, name, *(f"{getattr(item, metric):.3f}" for metric in _METRICS),
         str(item.programs), str(item.tasks))
        for name, item in found
    ]  # fmt: skip
    header = (
        "held out",
        "cost model",
        *(m.replace("_", "-") for m in _METRICS),
        "programs",
        "tasks",
    )
    return render_table(header, rows, left=(0, 1))


_EVAL: Final = Command(
    "eval",
    "show how well cost models rank what was measured",
    "Trains cost models on a part of a log and judges how they rank the rest: programs of tasks\n"
    "they know (within-task), and whole tasks they do not (by-task).  1 is perfect.  top-k: total\n"
    "time of the best programs over that of the best among the first k; pairwise: pairs in the\n"
    "right order; peak-k: speed of the best among the first j, mean over j <= k; best-1: speed of\n"
    "the best among the first tenth.",
    EXAMPLES,
    _eval_arguments,
    _eval,
)
_ACTIONS: Final = (COLLECT, _EVAL)


def _arguments(parser: Parser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, title="actions")
    for action in _ACTIONS:
        add_command(actions, action)


COMMAND = Command(
    "costmodel",
    "measure what cost models learn from, and show how well they rank",
    "Cost models rank candidates before they are measured.",
    EXAMPLES,
    _arguments,
    None,
)
