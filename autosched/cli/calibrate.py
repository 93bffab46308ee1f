"""``autosched calibrate``: the rates of this machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from autosched.cli.command import Command, Parser, UsageError, add_json, say, write_json
from autosched.cli.waiting import Waiting

if TYPE_CHECKING:
    from codegen.calibration import Calibration

_EXAMPLES = """\
  autosched calibrate                      once on every machine; it should be idle
  autosched calibrate --show               what is in use, beside the nominal rates
  autosched calibrate --reset              back to nominal rates
"""


def _arguments(parser: Parser) -> None:
    parser.add_argument("--show", action="store_true", help="only show the rates that are in use")
    parser.add_argument("--reset", action="store_true", help="forget what was measured")
    parser.add_argument(
        "--force",
        action="store_true",
        help="keep the rates, with a warning, even if the machine was busy",
    )
    add_json(parser)


def _run(args: argparse.Namespace) -> None:
    from autosched.runtime.probes.calibrate import (
        calibrate,
        current_calibration,
        forget_calibration,
    )

    if args.show + args.reset + args.force > 1:
        raise UsageError("--show, --reset and --force exclude each other", hint="give one")
    if args.show:
        found = current_calibration()
    elif args.reset:
        forget_calibration()
        found = None
    else:
        with Waiting("measuring the rates of this machine", args.quiet):
            found = calibrate(args.force)
    write_json(args.json, None if found is None else {"rates": dict(found.rates),
        "spread": dict(found.spread), "machine": found.machine, "threads": found.threads,
        "conditions": found.conditions, "disturbed": found.disturbed})  # fmt: skip
    say(args, _table(found))


def _table(found: Calibration | None) -> str:
    from autosched.runtime.table import render_table
    from codegen.calibration import MEASURED
    from codegen.host import host_target
    from sketch.target.rates import nominal_rates

    if found is None:
        return "not calibrated: targets of this machine have nominal rates"
    nominal = nominal_rates(host_target(1).vector_bytes)
    rows = [
        (name, f"{found.rates[name]:.4g}", f"{getattr(nominal, name):.4g}",
         f"{100 * found.spread[name]:.1f}")
        for name in MEASURED
    ]  # fmt: skip
    busy = ["kept though the machine was busy"] if found.disturbed else []
    return "\n".join([
        render_table(("rate", "measured", "nominal", "spread %"), rows, left=(0,)),
        f"{found.machine}; threads {found.threads}",
        found.conditions,
        *busy,
    ])  # fmt: skip


COMMAND = Command(
    "calibrate",
    "measure the rates of this machine, once, for the draft model",
    "Measures arithmetic, caches, memory, vector functions and parallel regions, in some seconds,\n"
    "and keeps the rates for the user.  Targets of this machine have them from then on: the draft\n"
    "model, which orders schedules before anything is measured, counts with them.  The best\n"
    "rounds count; where these do not agree, others follow, for half a minute.  If they never do,\n"
    "or other programs run all the time, the rates are refused.  Rates are cycles and SIMD\n"
    "registers, see sketch/target/rates.py.",
    _EXAMPLES,
    _arguments,
    _run,
)
