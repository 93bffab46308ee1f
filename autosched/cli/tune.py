"""``autosched tune``: search for fast schedules."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autosched.cli.command import (
    Command,
    Parser,
    add_json,
    check_apart,
    naming,
    positive_int,
    say,
    write_json,
)
from autosched.cli.fields import with_fields
from autosched.cli.fleet import runner_name
from autosched.cli.model import (
    add_model,
    check_threads,
    open_subject,
    target_of,
)
from autosched.cli.policy import named_policy, policy_name
from autosched.cli.precision import add_precision, in_precision_of
from autosched.cli.waiting import ProgressAfter, Waiting
from autosched.fleet.chosen import fleet_of
from autosched.measure.options import MeasureOptions
from autosched.records.accuracy import ACCURACIES
from autosched.search.models import MODELS, AnyModel, ModelName, trained_model
from autosched.system.errors import OptionError
from autosched.tuning.options import PRESETS, TuneOptions, parse_budget
from costmodel.errors import CostModelError

if TYPE_CHECKING:
    from autosched.fleet.cluster import RayCluster
    from autosched.records.store import RecordStore
    from autosched.tuning.job import TuneJob
    from sketch.target.target import Target

# Runs of each network in the comparison at the end: on an emulated device, and on others.
_EMULATED_RUNS: Final = 2
_RUNS: Final = 50
_EXAMPLES = """\
  autosched tune resnet-18 --budget 10m                    ten minutes; the log is resnet-18.jsonl
  autosched tune resnet-18 --budget 1h                     run again: goes on from that log
  autosched tune model.onnx --trials 2000 --threads 1      a number of trials, for one thread
  autosched tune resnet-18 --budget 5m --quiet --json result.json
  autosched tune resnet-18 --set search.population=8192 --set measure.samples=20
  autosched tune --workload C2D --trials 200               a convolution; the log is c2d.jsonl
  autosched tune --workload C2D --args n=16,h=28,w=28 --trials 200       of other sizes
  autosched tune --workload mine.py:scaled --args n=4096                 a workload of your own
  autosched tune mlp --trials 64 --policy mine.py:Annealing              a search of your own
"""


def _arguments(parser: Parser) -> None:
    add_model(parser, compiled=False)
    parser.add_argument(
        "--budget", type=time_limit, metavar="TIME",
        help="wall-clock limit: 90s, 10m, 1h30m (default without --trials: 10m; for a workload "
        "256 trials)",
    )  # fmt: skip
    parser.add_argument(
        "--trials", type=positive_int, metavar="N",
        help="measured candidates over all operators, those already in the log included",
    )  # fmt: skip
    parser.add_argument(
        "--log", metavar="LOG",
        help="every trial is appended here, to a file or a database (sqlite:///FILE, "
        "postgresql://USER@HOST/NAME); an existing log is resumed (default: MODEL.jsonl or, in "
        "lower case, WORKLOAD.jsonl)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, metavar="N", help="of everything random (default: 0)")
    parser.add_argument(
        "--preset", choices=tuple(PRESETS), default="default",
        help="search effort before measuring (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--skip-tuned", action="store_true", help="only tune operators without a record in the log"
    )
    parser.add_argument(
        "--examples", metavar="LOG", action="append", default=[],
        help="a log of other networks or machines: an operator that nothing is known of begins "
        "with the best schedules of the nearest ones there; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--policy", type=policy_name, metavar="NAME",
        help="how candidates are chosen: evolutionary (default), genetic, random, grid, or your "
        "own as FILE.py:NAME or package.module:NAME, a class with `ask` and `tell`",
    )  # fmt: skip
    parser.add_argument(
        "--cost-model", metavar="NAME", type=_cost_model,
        help="what ranks candidates: gbdt, forest, ridge, draft, random, or FILE.json of "
        "`costmodel train` (default: the model of this release if it has one, else gbdt)",
    )  # fmt: skip
    parser.add_argument(
        "--accuracy", choices=ACCURACIES,
        help="which other algorithms than those the operators are written in may be used: none "
        "(as written: keeps their rounding, and where infinities and NaN spread to), those with "
        "errors up to 1e-5 of the largest output, or four times what is written (default, and "
        "close, which holds what is compiled to 1e-5 as a whole, too), or up to 1e-4 (fast)",
    )  # fmt: skip
    add_precision(parser)
    parser.add_argument(
        "--set", action="append", metavar="NAME=VALUE", default=[], dest="settings",
        help="any other option, such as search.population=8192, leaders=8 or "
        "measure.run_timeout_s=2; may be repeated (an unknown name lists all)",
    )  # fmt: skip
    parser.add_argument(
        "--runner", type=runner_name, metavar="ray[://HOST:PORT]",
        help="measure on the machines of a cluster of Ray, not on this one: the cluster that it is "
        "part of, or one by its address; --target then is one of `autosched fleet`",
    )  # fmt: skip
    add_json(parser)


def time_limit(text: str) -> float:
    """An argparse type: seconds."""
    try:
        return parse_budget(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(f"{error.what}: {error.hint}") from None


def tune_options(args: argparse.Namespace) -> tuple[TuneOptions, MeasureOptions]:
    """How to search and how to measure, as the arguments say."""
    chosen = PRESETS[args.preset]
    chosen = chosen.overridden(args.trials, args.budget, args.seed, accuracy=args.accuracy)
    with naming(OptionError, CostModelError):
        if args.policy is not None:
            policy = named_policy(args.policy)
            chosen = replace(chosen, search=replace(chosen.search, policy=policy))
        return with_fields(chosen, args.settings)


def _cost_model(text: str) -> ModelName | Path:
    """An argparse type: a model by name, or the file of one."""
    if text.endswith(".json"):
        return Path(text)
    for name in MODELS:
        if text == name:
            return name
    raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(MODELS)}, FILE.json")


def _model(chosen: ModelName | Path | None, options: TuneOptions) -> AnyModel | None:
    """The model that --cost-model names, read where it is a file; None: the usual one."""
    if isinstance(chosen, Path):
        return trained_model(chosen, options.seed, options.search.gbdt)
    return chosen


def _run(args: argparse.Namespace) -> None:
    from autosched.records.store import open_store
    from autosched.tuning.networks import progress_or_table

    if args.log is not None:
        open_store(args.log).check()  # before the model is read, and is taken for the log
    subject = open_subject(args)
    log = open_store(f"{subject.name}.jsonl" if args.log is None else args.log)
    check_apart(args.json, [log.name])
    quiet = args.quiet or args.json == "-"
    with fleet_of(args.runner) as fleet:
        where = (args.target, args.threads, args.device)
        target = target_of(args) if fleet is None else fleet.target(*where)
        subject = in_precision_of(subject, args, target)
        job = _job(args, log, target, fleet)
        with Waiting(f"preparing {subject.label}", quiet) as wait:
            here = target if fleet is None else None
            shown = ProgressAfter(wait, progress_or_table(None, quiet, here))
            tuning = subject.tune(target, replace(job, progress=shown))
    if tuning.result.interrupted:
        print(f"everything measured is in {log.name}; the same command goes on", file=sys.stderr)
        raise KeyboardInterrupt
    if args.quiet and args.json is None:
        return
    if fleet is not None:  # this machine need not be one of them
        write_json(args.json, tuning.to_json())
        say(args, f"everything measured is in {log.name}")
        return
    with Waiting("comparing, beyond the budget", args.quiet) as wait:
        # Estimated times are all the same, and a whole network takes a while.
        repeats = _EMULATED_RUNS if target.card.emulated else _RUNS
        comparison = tuning.compare(repeats, wait.tell)
    write_json(args.json, tuning.to_json() | comparison.to_json())
    say(args, comparison)
    unlike = comparison.unlike_total(tuning.result.total_s)
    if unlike:
        say(args, unlike)
    # Where no operator is tuned, nothing was written.
    say(args, f"next: {next_command(args, log.name if log.exists() else None)}")


def _job(
    args: argparse.Namespace, log: RecordStore, target: Target, fleet: RayCluster | None
) -> TuneJob:
    """All but the tasks; says what is missing here before there is a log."""
    from autosched.records.store import examples_of
    from autosched.tuning.job import TuneJob
    from codegen.backend import check_runs

    if fleet is None:
        check_runs(target, "tune")
        check_threads(target)
    options, measure = tune_options(args)
    return TuneJob(
        options=options,
        measure=measure,
        log=log,
        examples=examples_of(args.examples),
        skip_tuned=args.skip_tuned,
        cost_model=_model(args.cost_model, options),
        start_runner=None if fleet is None else fleet.runner,
    )


def next_command(args: argparse.Namespace, log: str | None) -> str:
    """A command that makes use of the log: for the same program and the same target."""
    words = ["autosched"]
    words += ["bench", args.model] if args.workload is None else ["explain"]
    options = {
        "--workload": args.workload,
        "--args": args.args or None,
        "--configuration": args.configuration,
        "--target": None if args.target == "cpu" else args.target,
        "--device": args.device,
        "--threads": args.threads,
        "--log": log,
        "--accuracy": args.accuracy,
        "--precision": args.precision,
        "--precision-bound": args.precision_bound,
    }
    for name, shape in args.shapes or ():
        words += ["--shape", f"{name}={','.join(map(str, shape))}"]
    for name, value in args.values or ():
        words += ["--value", f"{name}={str(value).lower()}"]
    for path in args.precision_data or ():
        words += ["--precision-data", path]
    for option, value in options.items():
        words += [] if value is None else [option, str(value)]
    return shlex.join(words)


COMMAND = Command(
    "tune",
    "search for fast schedules of a network or a workload, measuring on this machine",
    "Searches for fast schedules of all operators of a network, or of one tensor program.  Every\n"
    "trial is appended to a log; stop with Ctrl-C at any time and run the same command to go on.\n"
    "Ends with the latency before and after, a network's next to onnxruntime's where that is\n"
    "installed.  That takes some seconds more than the budget; --quiet leaves it out.",
    _EXAMPLES,
    _arguments,
    _run,
)
