"""``autosched bench``: end-to-end latency."""

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
  autosched bench resnet-18 --log resnet-18.jsonl               with the best records of a log
  autosched bench resnet-18                                     untuned, for comparison
  autosched bench resnet-18.asd --repeats 500 --pin             a compiled module, pinned threads
"""


def _arguments(parser: Parser) -> None:
    add_model(parser)
    add_log(parser)
    parser.add_argument("--repeats", type=positive_int, default=100, metavar="N",
                        help="timed runs (default: %(default)s)")  # fmt: skip
    parser.add_argument("--pin", action="store_true", help="bind each worker thread to a core")
    add_json(parser)


def _run(args: argparse.Namespace) -> None:
    module = open_module(args)
    if args.pin:
        module.pin_threads()
    result = module.benchmark(repeats=args.repeats)
    say(args, result)
    write_json(args.json, result.to_json())


COMMAND = Command(
    "bench",
    "time a network end to end",
    "Compiles a network and times it on random inputs; every change of layout and the copy of\n"
    "the outputs count.",
    _EXAMPLES,
    _arguments,
    _run,
)
