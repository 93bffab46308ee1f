"""``autosched workloads``: the tensor programs that ``--workload`` knows."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from autosched.cli.command import Command, Parser, add_json, naming, say, write_json
from autosched.system.errors import WorkloadError

if TYPE_CHECKING:
    from autosched.workloads.definition import Workload

_EXAMPLES = """\
  autosched workloads                      the library: operators of Ansor's evaluation
  autosched workloads C2D                  one of them
  autosched workloads mine.py              your own: functions decorated with @autosched.workload
  autosched tune --workload C2D --configuration 3          tune the third that is listed
  autosched tune --workload C2D --args n=16,kernel=5       or others: the first, but for these
"""


def _arguments(parser: Parser) -> None:
    parser.add_argument(
        "which", metavar="NAME", nargs="?",
        help="a workload, or a file whose workloads are listed (default: the library)",
    )  # fmt: skip
    add_json(parser)


def _run(args: argparse.Namespace) -> None:
    from autosched.workloads.source import listed

    with naming(WorkloadError):
        found = listed(args.which)
    write_json(args.json, [_row(workload) for workload in found])
    say(args, "\n".join(_text(workload, args.which is not None) for workload in found))
    if args.which is None:
        say(args, "`autosched workloads NAME` lists the configurations of one of them")


def _text(workload: Workload[...], whole: bool) -> str:
    """A workload in one line; ``whole``: and each of its configurations."""
    from autosched.workloads.arguments import text_of

    lines = [str(workload)]
    if not whole:
        return lines[0]
    lines += [f"  {n}  {text_of(workload, shape)}" for n, shape in enumerate(workload.shapes, 1)]
    return "\n".join(lines)


def _row(workload: Workload[...]) -> dict[str, object]:
    from autosched.workloads.arguments import named_shape

    return {
        "name": workload.name,
        "arguments": list(workload.signature.parameters),
        "summary": workload.summary,
        "configurations": [named_shape(workload, shape) for shape in workload.shapes],
    }


COMMAND = Command(
    "workloads",
    "list the tensor programs that can be tuned by name",
    "Lists workloads with their arguments; of one, or of those of a file, also the configurations\n"
    "that are worth measuring.  Those of the library are the ones that the Ansor paper measures.",
    _EXAMPLES,
    _arguments,
    _run,
)
