"""``autosched costmodel``: corpora to learn from, and how well cost models rank."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Final

from autosched.cli.collect import COLLECT, CORPUS_SUFFIX, EXAMPLES, add_seed
from autosched.cli.command import (
    Command,
    Parser,
    UsageError,
    add_actions,
    add_json,
    say,
    write_json,
)
from autosched.cli.model import add_model, check_log, check_model, open_subject, target_of
from autosched.cli.train import TRAIN, judge_corpus
from autosched.cli.waiting import Waiting
from autosched.records.errors import RecordError
from autosched.search.models import MODELS, make_model
from autosched.system.user_warnings import notify

if TYPE_CHECKING:
    from autosched.cli.subject import Subject
    from costmodel.evaluation import Evaluation


def _eval_arguments(parser: Parser) -> None:
    add_model(parser, compiled=False, kinds="CORPUS.npz, ")
    parser.add_argument("more", metavar="CORPUS.npz", nargs="*",
                        help="after a corpus: others that are judged with it")  # fmt: skip
    parser.add_argument("--log", metavar="FILE", help="records of tuning MODEL; not of a corpus")
    parser.add_argument(
        "--cost-model", choices=MODELS, metavar="NAME", action="append",
        help="gbdt, forest, ridge, draft, random; may be repeated (default: all of them; for a "
        "corpus gbdt and draft)",
    )  # fmt: skip
    add_seed(parser, "of the models and of what is held out")
    add_json(parser)


def _eval(args: argparse.Namespace) -> None:
    if args.model is not None and args.model.endswith(CORPUS_SUFFIX):
        found, label = judge_corpus(args), {"corpus": ", ".join([args.model, *args.more])}
    else:
        if args.more:
            raise UsageError(
                "only corpora can be several", " ".join(args.more), "give one MODEL and its --log"
            )
        found, label = _on_log(args)
    rows = [{"cost_model": name, **asdict(item)} for name, item in found]
    write_json(args.json, {**label, "rows": rows})
    say(args, _table(found))


def _on_log(args: argparse.Namespace) -> tuple[list[tuple[str, Evaluation]], dict[str, str]]:
    """Evaluations on the log of a model, and what they are of."""
    from autosched.records.store import log_name

    if args.log is None:
        if args.model is not None:
            check_model(args.model)
        raise UsageError("no log is named", args.model or args.workload, "give --log FILE")
    check_log(args.log)
    subject = open_subject(args)
    with Waiting(f"judging cost models on {subject.label}", args.quiet):
        found = _evaluations(args, subject)
    return found, {subject.kind: subject.label, "log": log_name(args.log)}


def _evaluations(args: argparse.Namespace, subject: Subject) -> list[tuple[str, Evaluation]]:
    """How each of the cost models does, for each way to hold something out."""
    from autosched.records.store import open_store
    from autosched.study import kin_of, recorded_dataset
    from costmodel.evaluation import SPLITS, evaluate

    store = open_store(args.log)
    log = store.read()
    notify(log.warnings)
    tasks = subject.tasks(target_of(args))
    dataset, kin = recorded_dataset(tasks, log.records), kin_of(tasks)
    if not len(dataset):
        raise RecordError(
            f"no record of {subject.label} for this target",
            store.name,
            "tune first, or see --threads",
        )
    splits = [split for split in SPLITS if split != "by-task" or len(dataset.tasks) > 1]
    return [
        (name, evaluate(dataset, partial(make_model, name, args.seed), split, args.seed, kin))
        for split in splits
        for name in args.cost_model or MODELS
    ]


def _table(found: list[tuple[str, Evaluation]]) -> str:
    from autosched.runtime.table import render_table
    from costmodel.evaluation import METRICS

    rows = [
        (item.split, name, *(f"{getattr(item, metric):.3f}" for metric in METRICS),
         str(item.programs), str(item.tasks))
        for name, item in found
    ]  # fmt: skip
    header = (
        "held out",
        "cost model",
        *(m.replace("_", "-") for m in METRICS),
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
_ACTIONS: Final = (COLLECT, TRAIN, _EVAL)


def _arguments(parser: Parser) -> None:
    add_actions(parser, _ACTIONS)


COMMAND = Command(
    "costmodel",
    "measure what cost models learn from, and show how well they rank",
    "Cost models rank candidates before they are measured.",
    EXAMPLES,
    _arguments,
    None,
)
