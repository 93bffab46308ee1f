"""``autosched explain``: where a network loses time."""

from __future__ import annotations

import argparse

from autosched.cli.command import (
    Command,
    Parser,
    add_json,
    add_log,
    add_model,
    open_module,
    positive_int,
    say,
    write_json,
)

_EXAMPLES = """\
  autosched explain resnet-18 --log resnet-18.jsonl             what to tune, or improve, next
  autosched explain resnet-18.asd --repeats 200                 of what is compiled already
  autosched explain model.onnx --json explain.json              the same for a program
"""


def _arguments(parser: Parser) -> None:
    add_model(parser)
    add_log(parser)
    parser.add_argument("--repeats", type=positive_int, default=50, metavar="N",
                        help="timed runs (default: %(default)s)")  # fmt: skip
    add_json(parser)


def _run(args: argparse.Namespace) -> None:
    explanation = open_module(args).explain(repeats=args.repeats)
    say(args, explanation)
    write_json(args.json, explanation.to_json())


COMMAND = Command(
    "explain",
    "show where a network loses time against what the machine can do",
    "Times every operator inside ordinary runs and compares it with its limit: FLOPs over the\n"
    "measured arithmetic peak, or inputs, constants and outputs over the measured bandwidth,\n"
    "whichever takes longer.  The operators that lose most come first, with where their\n"
    "schedules come from.",
    _EXAMPLES,
    _arguments,
    _run,
)
