"""``autosched doctor``: what this machine has, what it lacks, and what to do."""

from __future__ import annotations

import argparse

from autosched.cli.command import Command, Parser, add_json, say, write_json
from autosched.cli.waiting import Waiting

_EXAMPLES = """\
  autosched doctor                         before the first tuning run, or when times look wrong
  autosched doctor --json -                for a program, or for a report of a fault
"""


def _arguments(parser: Parser) -> None:
    add_json(parser)


def _run(args: argparse.Namespace) -> None:
    from autosched.doctor.diagnosis import examine
    from autosched.system.errors import MachineError

    with Waiting("looking at this machine", args.quiet):
        found = examine()
    write_json(args.json, found.to_json())
    say(args, found)
    missing = found.having("missing")
    if missing:
        raise MachineError(
            f"missing: {', '.join(f'{item.topic} ({item.found})' for item in missing)}",
            hint="; ".join(item.remedy for item in missing),
        )


COMMAND = Command(
    "doctor",
    "say what this machine has, what it lacks, and what to do",
    "Looks at SIMD, CPUs and quotas, clocks, memory and huge pages, the noise of timings,\n"
    "libgomp, the linker, counters, NVIDIA driver and NVRTC, and the installed extras.  Verdicts:\n"
    "  ok       nothing to do\n"
    "  advice   it works, and could work better\n"
    "  absent   only some functions want it\n"
    "  missing  nothing can be tuned without it (exit code 1)\n"
    "It changes nothing.",
    _EXAMPLES,
    _arguments,
    _run,
)
