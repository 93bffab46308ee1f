"""``autosched profile``: where the time goes."""

from __future__ import annotations

import argparse
import sys

from autosched.cli.command import STDOUT, Command, FileError, Parser, say, write_json
from autosched.cli.model import add_timing, open_module
from autosched.cli.waiting import Waiting

_EXAMPLES = """\
  autosched profile resnet-18 --log resnet-18.jsonl
  autosched profile resnet-18 --log resnet-18.jsonl --counters      cycles, cache misses, stalls
  autosched profile model.onnx --csv profile.csv                    the table for a spreadsheet
  autosched profile resnet-18.asd --json - | python -m json.tool    the table for a program
"""


def _arguments(parser: Parser) -> None:
    add_timing(parser, repeats=50, more="; the table has medians")
    parser.add_argument(
        "--counters", action="store_true",
        help="also count cycles, instructions, cache misses and stalls, where the system lets us",
    )  # fmt: skip
    parser.add_argument("--csv", metavar="FILE", help="also write the table as CSV (- : stdout)")


def _run(args: argparse.Namespace) -> None:
    module = open_module(args)
    with Waiting(f"timing {module.name}", args.quiet):
        profile = module.profile(repeats=args.repeats, counters=args.counters)
    if args.csv == STDOUT:
        profile.print_csv(sys.stdout)
    elif args.csv is not None:
        try:
            profile.to_csv(args.csv)
        except OSError as error:
            raise FileError(f"cannot write CSV: {error.strerror}", args.csv) from error
    write_json(args.json, profile.to_json())
    say(args, profile)


COMMAND = Command(
    "profile",
    "show the time of every operator of a network",
    "Times every operator inside ordinary runs on random inputs: microseconds, share, GFLOPS,\n"
    "share of the machine's peak, tuned or not.  Times are medians: what interrupts a run does\n"
    "not count.  The rows sum to the time of an undisturbed run.\n"
    "Counters are those of the processor, in user mode, over all threads, from further runs; a\n"
    "thread that waits for another spins and counts, too.",
    _EXAMPLES,
    _arguments,
    _run,
)
