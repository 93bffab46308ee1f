"""``autosched tune``: search for fast schedules."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from autosched.cli.command import (
    Command,
    Parser,
    add_json,
    add_model,
    open_network,
    positive_int,
    say,
    write_json,
)
from autosched.options import POLICIES, PRESETS, TuneOptions
from autosched.search.models import MODELS, make_model

_EXAMPLES = """\
  autosched tune resnet-18 --budget 10m                    ten minutes; the log is resnet-18.jsonl
  autosched tune resnet-18 --budget 1h                     run again: goes on from that log
  autosched tune model.onnx --trials 2000 --threads 1      a number of trials, for one thread
  autosched tune resnet-18 --budget 5m --quiet --json result.json
"""


def _arguments(parser: Parser) -> None:
    add_model(parser, compiled=False)
    parser.add_argument(
        "--budget", metavar="TIME",
        help="wall-clock limit: 90s, 10m, 1h30m (default: 10m without --trials)",
    )  # fmt: skip
    parser.add_argument(
        "--trials", type=positive_int, metavar="N",
        help="measured candidates over all operators, those already in the log included",
    )  # fmt: skip
    parser.add_argument(
        "--log", metavar="FILE",
        help="every trial is appended here; an existing log is resumed (default: MODEL.jsonl)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, metavar="N", help="of everything random (default: 0)")
    parser.add_argument(
        "--preset", choices=tuple(PRESETS), default="default",
        help="how hard to think before measuring (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--skip-tuned", action="store_true", help="only tune operators without a record in the log"
    )
    parser.add_argument(
        "--policy", choices=POLICIES, metavar="NAME",
        help="how candidates are chosen: evolutionary (default), genetic, random, grid",
    )  # fmt: skip
    parser.add_argument(
        "--cost-model", choices=MODELS, metavar="NAME", default="gbdt",
        help="what ranks candidates: gbdt (default), forest, ridge, draft, random",
    )  # fmt: skip
    add_json(parser)


def tune_options(args: argparse.Namespace) -> TuneOptions:
    """The options that the arguments ask for."""
    chosen = PRESETS[args.preset]
    if args.policy is None:
        return chosen
    return replace(chosen, search=replace(chosen.search, policy=args.policy))


def _run(args: argparse.Namespace) -> None:
    from autosched import api

    network = open_network(args.model, args.shapes)
    log = args.log or f"{Path(args.model).name.removesuffix('.onnx')}.jsonl"
    tuning = api.tune(
        network,
        args.target,
        budget=args.budget,
        trials=args.trials,
        log=log,
        seed=args.seed,
        threads=args.threads,
        options=tune_options(args),
        skip_tuned=args.skip_tuned,
        cost_model=make_model(args.cost_model, args.seed or 0),
        quiet=args.quiet or args.json == "-",
    )
    if tuning.result.interrupted:
        print(f"everything measured is in {log}; the same command goes on", file=sys.stderr)
        raise KeyboardInterrupt
    if args.quiet and args.json is None:
        return
    comparison = tuning.compare()
    say(args, comparison)
    say(args, f"next: autosched bench {args.model} --log {log}")
    write_json(args.json, tuning.to_json() | comparison.to_json())


COMMAND = Command(
    "tune",
    "search for fast schedules of a network, measuring on this machine",
    "Searches for fast schedules of all operators of a network.  Every trial is appended to a\n"
    "log; stop with Ctrl-C at any time and run the same command to go on.  Ends with the latency\n"
    "before and after, next to onnxruntime's where that is installed.",
    _EXAMPLES,
    _arguments,
    _run,
)
