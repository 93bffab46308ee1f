"""The child that runs a batch of cases and reports each on a pipe."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import traceback
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from campaign.part import Part
from campaign.verdict import Json, Verdict

STACKS_SIGNAL: Final = signal.SIGUSR2
"""Makes a child write what its threads are doing."""


def run_items(
    part: Part, items: Sequence[tuple[int | None, Json | None]], pipe: int, stacks: int
) -> NoReturn:
    """Run (seed, case) pairs one after another, of which one is None; ends this process.

    Args:
        part: whose cases they are.
        items: the pairs.
        pipe: descriptor that verdicts are written to.
        stacks: descriptor of a file that takes the stacks of all threads at ``STACKS_SIGNAL``.
    """
    faulthandler.disable()  # a death is a verdict, not news
    faulthandler.register(STACKS_SIGNAL, stacks)
    try:
        for seed, case in items:
            start = _cpu_s()
            verdict = judge(part, seed, case, pipe)
            _write(pipe, {**verdict.to_json(), "cpu_s": _cpu_s() - start})
        os._exit(0)
    finally:
        os._exit(1)


def judge(part: Part, seed: int | None, case: Json | None, pipe: int) -> Verdict:
    """One verdict; whatever is raised is one."""
    try:
        _write(pipe, {"phase": "draw"})
        if case is None:
            assert seed is not None
            case = part.draw(seed)
        return part.judge(case, lambda phase: _write(pipe, {"phase": phase}))
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        where = " < ".join(f"{os.path.basename(f.filename)}:{f.lineno}" for f in reversed(frames))
        return Verdict("error", f"{type(error).__name__}: {str(error)[:300]} at {where}")


def _write(pipe: int, message: dict[str, Any]) -> None:
    line = (json.dumps(message) + "\n").encode()
    while line:
        line = line[os.write(pipe, line) :]


def _cpu_s() -> float:
    times = os.times()
    return sum(times[:4])
