"""``autosched explain``: where a network loses time."""

from __future__ import annotations

import argparse

from autosched.cli.command import Command, Parser, say, write_json
from autosched.cli.model import add_timing, open_module, open_workload, target_of
from autosched.cli.waiting import Waiting

_EXAMPLES = """\
  autosched explain resnet-18 --log resnet-18.jsonl             what to tune, or improve, next
  autosched explain resnet-18.asd --repeats 200                 of what is compiled already
  autosched explain model.onnx --json explain.json              the same for a program
  autosched explain --workload GMM --log gmm.jsonl              one tensor program, and its loops
"""


def _arguments(parser: Parser) -> None:
    add_timing(parser, repeats=50)


def _run(args: argparse.Namespace) -> None:
    module = open_module(args)
    with Waiting(f"timing {module.name}", args.quiet):
        explanation = module.explain(repeats=args.repeats)
    write_json(args.json, explanation.to_json())
    say(args, explanation)
    if args.workload is not None:
        task = open_workload(args).task(target_of(args))
        say(args, f"\n{task.explain(args.log, args.accuracy or 'default')}")


COMMAND = Command(
    "explain",
    "show where a network loses time against what the machine can do",
    "Times every operator inside ordinary runs and compares it with its limit: FLOPs of the\n"
    "algorithm that runs over the measured arithmetic peak, or inputs, constants and outputs over\n"
    "the measured bandwidth of the memory or, on a CPU, of the caches that hold them, whichever\n"
    "takes longer.  The operators that lose most come first, with where their schedules come\n"
    "from.  Of a workload also the schedule itself, as loops.",
    _EXAMPLES,
    _arguments,
    _run,
)
