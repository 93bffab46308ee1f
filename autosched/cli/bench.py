"""``autosched bench``: end-to-end latency."""

from __future__ import annotations

import argparse

from autosched.cli.command import Command, Parser, say, write_json
from autosched.cli.model import add_timing, open_module
from autosched.cli.waiting import Waiting

_EXAMPLES = """\
  autosched bench resnet-18 --log resnet-18.jsonl               with the best records of a log
  autosched bench resnet-18                                     untuned, for comparison
  autosched bench resnet-18.asd --repeats 500 --pin             a compiled module, pinned threads
  autosched bench --workload C2D --args h=28,w=28 --log c2d.jsonl        one tensor program
"""


def _arguments(parser: Parser) -> None:
    add_timing(parser, repeats=100)
    parser.add_argument("--pin", action="store_true", help="bind each worker thread to a core")


def _run(args: argparse.Namespace) -> None:
    module = open_module(args)
    if args.pin:
        module.pin_threads()
    with Waiting(f"timing {module.name}", args.quiet):
        result = module.benchmark(repeats=args.repeats)
    write_json(args.json, result.to_json())
    say(args, result)


COMMAND = Command(
    "bench",
    "time a network end to end",
    "Compiles a network and times it on random inputs; every change of layout and the copy of\n"
    "the outputs count.",
    _EXAMPLES,
    _arguments,
    _run,
)
