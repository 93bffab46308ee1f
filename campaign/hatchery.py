"""The process that runs the cases of one part: it forks a child for every batch.

``python -m campaign.hatchery PART`` reads requests and writes answers, a line of JSON each:

    {"seeds": [...]}                         a line per case, then {"end": true}
    {"case": case}                           its line, then {"end": true}
    {"minimise": seed, "outcome": outcome}   {"case": the smaller case}, then {"end": true}

A child that dies or takes too long gives its case a verdict, and the next child goes on after it.
This process itself runs no case, so that it stays fit to fork, and it ends with whoever made it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from campaign.child import STACKS_SIGNAL, run_items
from campaign.lines import LineReader
from campaign.minimise import minimise
from campaign.part import KERNEL, Entry, Part
from campaign.parts import entry
from campaign.processes import adopt_orphans, children, die_with_parent
from campaign.verdict import Json, Outcome, Verdict

_MEMORY_FAULTS: Final = (signal.SIGSEGV, signal.SIGBUS)
_MINIMISE_S: Final = 60.0
_STACKS_S: Final = 0.5
_CALLS: Final = 4


class Item(NamedTuple):
    """A case to run: a seed, or a case that is given."""

    seed: int | None
    case: Json | None


class Answer(NamedTuple):
    """A verdict, and the CPU seconds that the case took (its own children included)."""

    item: Item
    verdict: Verdict
    cpu_s: float


class Hatchery:
    """Runs cases of one part in forked children."""

    def __init__(self, part: Part, plan: Entry) -> None:
        self._part = part
        self._plan = plan

    def run(self, items: Sequence[Item]) -> Iterator[Answer]:
        """The verdicts of ``items``, in order."""
        done = 0
        while done < len(items):
            for answer in self._one_child(items[done:]):
                done += 1
                yield answer

    def judge(self, case: Json) -> Verdict:
        """One case in a child of its own."""
        (answer,) = self.run([Item(None, case)])
        return answer.verdict

    def smallest(self, seed: int, outcome: Outcome) -> Json:
        """The case of a seed, made smaller as long as its outcome stays."""
        case = self._part.draw(seed)
        kind = self.judge(case).kind
        end = time.monotonic() + _MINIMISE_S

        def fails(smaller: Json) -> bool:
            found = self.judge(smaller)
            return found.outcome == outcome and found.kind == kind

        return minimise(case, self._part.smaller, fails, lambda: time.monotonic() < end)

    def _one_child(self, items: Sequence[Item]) -> Iterator[Answer]:
        """Answers until the child is through, dies or hangs; the last one says so."""
        read, write = os.pipe()
        stacks = os.memfd_create("stacks")
        others = frozenset(children(os.getpid()))
        child = os.fork()
        if child == 0:
            os.close(read)
            os.setsid()
            die_with_parent()
            run_items(self._part, [(item.seed, item.case) for item in items], write, stacks)
        os.close(write)
        reader = LineReader(read)
        current, phase, left = 0, "", time.monotonic() + self._plan.limit_s
        try:
            while True:
                line = reader.next(left - time.monotonic())
                if line is None:
                    break
                message = json.loads(line)
                if "phase" in message:
                    phase = message["phase"]
                    continue
                yield Answer(items[current], Verdict.from_json(message), message["cpu_s"])
                current, phase, left = current + 1, "", time.monotonic() + self._plan.limit_s
        finally:
            reader.close()
            where = _innermost_calls(child, stacks) if reader.timed_out else ""
            os.close(stacks)
            status = _end(child, others)
        if current < len(items):
            verdict = self._verdict_of_death(reader, status, phase, where)
            yield Answer(items[current], verdict, 0.0)

    def _verdict_of_death(self, reader: LineReader, status: int, phase: str, where: str) -> Verdict:
        if reader.timed_out:
            limit = f"over {self._plan.limit_s:g} s in {phase or 'the case'}"
            return Verdict("hang", f"{limit}, {where}")
        code = os.waitstatus_to_exitcode(status)
        cause = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        if phase == KERNEL and -code in _MEMORY_FAULTS:
            return Verdict("out_of_bounds", f"{cause} in a kernel")
        return Verdict("crash", f"{cause} in {phase or 'the case'}")


def _innermost_calls(child: int, stacks: int) -> str:
    """What a child that hangs is doing: the innermost calls of each of its threads."""
    with suppress(ProcessLookupError):
        os.kill(child, STACKS_SIGNAL)
    time.sleep(_STACKS_S)
    text = os.pread(stacks, 1 << 16, 0).decode(errors="replace")
    threads = [re.findall(r"([^/]+)\", line (\d+) in", part) for part in text.split("\n\n")]
    calls = [" < ".join(":".join(call) for call in found[:_CALLS]) for found in threads if found]
    return "; ".join(calls) or "it does not answer a signal"


def _end(child: int, others: Collection[int]) -> int:
    """Ends a child and all that it started, but not our ``others``; the child's status."""
    time_left = time.monotonic() + 0.2  # of its own accord, where it is through
    pid, status = os.waitpid(child, os.WNOHANG)
    while pid == 0 and time.monotonic() < time_left:
        time.sleep(0.001)
        pid, status = os.waitpid(child, os.WNOHANG)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if pid == 0:
        _, status = os.waitpid(child, 0)
    _end_orphans(others)
    return status


def _end_orphans(others: Collection[int]) -> None:
    """Ends what was left behind, and what that leaves behind."""
    while pids := [pid for pid in children(os.getpid()) if pid not in others]:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)


def main() -> None:
    """Serve requests from stdin until it closes."""
    plan = entry(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # whatever a case prints
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # spinning threads would starve others
    adopt_orphans()
    hatchery = Hatchery(plan.load(), plan)
    for line in sys.stdin:
        for answer in _answers(hatchery, json.loads(line)):
            answers.write(json.dumps(answer) + "\n")
        answers.write('{"end": true}\n')


def _answers(hatchery: Hatchery, request: dict[str, Any]) -> Iterator[Json]:
    if "minimise" in request:
        yield {"case": hatchery.smallest(request["minimise"], request["outcome"])}
        return
    items = [Item(seed, None) for seed in request.get("seeds", ())]
    items += [Item(None, request["case"])] if "case" in request else []
    for answer in hatchery.run(items):
        yield {"seed": answer.item.seed, "cpu_s": answer.cpu_s, **answer.verdict.to_json()}


if __name__ == "__main__":
    main()
