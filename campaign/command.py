"""The command line of the campaign."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.rows import write_json
from campaign.hatchery import Hatchery, Item
from campaign.job import JobError
from campaign.part import Entry
from campaign.parts import PARTS, entry
from campaign.report import failures, progress, rows, table
from campaign.session import Plan, Session
from campaign.state import State, StateError

ROOT: Final = Path(__file__).parents[1]
_INTERRUPTED: Final = 130
_EXAMPLES: Final = """\
examples:
  python -m campaign --minutes 60 --json out/campaign.json      goes on where it was interrupted
  python -m campaign --minutes 5 --part tensor --state out/t.jsonl
  python -m campaign --part tensor --case 123000000017          one case again, in full
"""


def make_parser() -> argparse.ArgumentParser:
    """The parser of ``python -m campaign``."""
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(
        prog="python -m campaign",
        description="Random cases against independent judges; exit code 1 if one fails.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=60, help="how long (default 60)")
    parser.add_argument("--part", action="append", choices=names, help="only this part; repeatable")
    parser.add_argument("--seed", type=int, help="of the campaign (default: a fresh one)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--state", type=Path, default=Path("out/campaign.jsonl"))
    parser.add_argument("--fresh", action="store_true", help="forget what the state file holds")
    parser.add_argument("--json", help="write the results to this file")
    parser.add_argument("--regressions", type=Path, default=ROOT / "tests" / "regressions")
    parser.add_argument("--case", type=int, help="run the one case of this seed, and print it")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a campaign, or one case."""
    options = make_parser().parse_args(arguments)
    chosen = PARTS if options.part is None else tuple(entry(name) for name in options.part)
    if options.case is not None:
        sys.exit(_one_case(chosen[0], options.case))
    for part in chosen:
        if part.missing():
            print(f"part {part.name} is left out: {', '.join(part.missing())} is not installed")
    chosen = tuple(part for part in chosen if not part.missing())
    try:
        sys.exit(_campaign(options, chosen) if chosen else 0)
    except (StateError, JobError) as error:
        sys.exit(f"campaign: {error}")


def _one_case(part: Entry, seed: int) -> int:
    loaded = part.load()
    print(json.dumps(loaded.draw(seed), indent=1))
    (answer,) = Hatchery(loaded, part).run([Item(seed, None)])
    print(answer.verdict.outcome, answer.verdict.message, dict(answer.verdict.counts))
    return int(answer.verdict.failed)


def _campaign(options: argparse.Namespace, chosen: Sequence[Entry]) -> int:
    if options.fresh:
        options.state.unlink(missing_ok=True)
    state = State(options.state, options.seed, secrets.randbelow(10**6))
    print(f"seed {state.seed}, state in {options.state}", flush=True)
    end = time.monotonic() + 60 * options.minutes
    log = options.state.with_suffix(".log")
    plan = Plan(chosen, 60 * options.minutes, options.jobs, options.regressions, log)
    session = Session(plan, state, lambda text: print(text, flush=True))
    shown = [0.0]

    def show() -> None:
        now = time.monotonic()
        if now - shown[0] >= (2 if sys.stdout.isatty() else 30):
            shown[0] = now
            line = progress(state.tallies, (end - now) / 60)
            print(f"\r\033[K{line}" if sys.stdout.isatty() else line,
                  end="" if sys.stdout.isatty() else "\n", flush=True)  # fmt: skip

    interrupted = False
    try:
        session.run(show)
    except KeyboardInterrupt:
        interrupted = True
    print("\n" + table(state.tallies))
    write_json(options.json, rows(state.tallies), campaign={"seed": state.seed})
    if interrupted:
        print("interrupted; the same command goes on from here")
        return _INTERRUPTED
    return int(any(failures(tally) for tally in state.tallies.values()))
