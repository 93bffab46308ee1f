"""Parsing, dispatch, and what becomes of errors.

Exit codes: 0 done, 1 an error of ours (one line on stderr), 2 wrong usage, 130 interrupted, 141
nobody read stdout to its end, 143 and 129 ended by SIGTERM and SIGHUP.
Warnings are lines on stderr, too; what a command was asked for goes to stdout.
"""

from __future__ import annotations

import argparse
import errno
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any, Final

from autosched.cli import (
    bench,
    calibrate,
    compile,
    completion,
    costmodel,
    doctor,
    explain,
    fleet,
    operators,
    profile,
    records,
    report,
    summary,
    tune,
    watch,
    workloads,
)
from autosched.cli.command import Command, Parser, UsageError, add_command, check_outputs
from autosched.cli.ending import drop_output, ending_on_signals, say_ending
from autosched.cli.exit_codes import CUT, FAILED, OK, WRONG_USAGE
from autosched.system.release import __version__
from autosched.system.streams import print_line
from autosched.system.user_warnings import AutoschedWarning
from sketch.errors import AutoschedError

COMMANDS: Final[tuple[Command, ...]] = (
    tune.COMMAND,
    fleet.COMMAND,
    bench.COMMAND,
    profile.COMMAND,
    explain.COMMAND,
    summary.COMMAND,
    compile.COMMAND,
    records.COMMAND,
    report.COMMAND,
    watch.COMMAND,
    costmodel.COMMAND,
    calibrate.COMMAND,
    doctor.COMMAND,
    workloads.COMMAND,
    operators.COMMAND,
    completion.COMMAND,
)

_EXAMPLES: Final = """\
a first session:
  autosched tune resnet-18 --budget 10m --log resnet-18.jsonl    search; stop and resume at will
  autosched bench resnet-18 --log resnet-18.jsonl                how fast is it now?
  autosched profile resnet-18 --log resnet-18.jsonl              where does the time go?
  autosched explain resnet-18 --log resnet-18.jsonl              and where is some to gain?
  autosched tune model.onnx --budget 1h                          your own model
  autosched tune --workload C2D --trials 200                     one operator of `workloads`

`autosched COMMAND --help` explains a command, with examples.

exit codes:
  0 done    1 an error, told in one line on stderr    2 wrong usage, such as unknown names
  130 interrupted (Ctrl-C)    143 ended by SIGTERM    129 ended by SIGHUP
  141 stdout was closed early, as by `| head`; files are written all the same
"""

# Errors of files are ours before they come here; what is left is that of stdout.
_OF_OUTPUT: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def make_parser() -> Parser:
    """The parser of all commands."""
    parser = Parser(
        prog="autosched",
        description="Finds fast programs for the tensor operators of a neural network, by search.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"autosched {__version__}")
    parser.set_defaults(parser=parser)
    commands = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    for command in COMMANDS:
        add_command(commands, command)
    return parser


@contextmanager
def _plain_warnings(quiet: bool) -> Iterator[None]:
    """Our own warnings as lines on stderr, each text once; none of them when ``quiet``."""
    others, seen = warnings.showwarning, set()

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if not issubclass(category, AutoschedWarning):
            others(message, category, *place, **more)
            return
        text = " ".join(str(message).split())
        if not quiet and text not in seen:
            print_line(f"autosched: warning: {text}", sys.stderr)
        seen.add(text)

    with warnings.catch_warnings():
        warnings.simplefilter("always", AutoschedWarning)
        warnings.showwarning = show
        yield


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code (what does not parse exits with 2 by itself)."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # names of layers may not fit a pipe's encoding
    with ending_on_signals() as ending:
        try:
            code = _run(argv)
            ending.noted.check()
            return code
        except KeyboardInterrupt:
            say_ending(ending)
        except OSError as error:
            if not ending.asked and error.errno not in _OF_OUTPUT:
                raise
            drop_output()  # the terminal was closed, which is what the signal said
            if not ending.asked:
                print(f"autosched: cannot write to stdout: {error.strerror}", file=sys.stderr)
                return FAILED
        return ending.exit_code


def _run(argv: Sequence[str] | None) -> int:
    try:
        args = make_parser().parse_args(argv)
        check_outputs(args)
        with _plain_warnings(args.quiet):
            args.run(args)
        sys.stdout.flush()
        return CUT if getattr(args, "cut", False) else OK
    except AutoschedError as error:
        print(f"autosched: {' '.join(str(error).split())}", file=sys.stderr)
        return WRONG_USAGE if isinstance(error, UsageError) else FAILED
    except BrokenPipeError:  # the reader has gone (``| head``)
        drop_output()
        return CUT
