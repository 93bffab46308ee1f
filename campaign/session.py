"""A session of the campaign: jobs take batches until the time is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from campaign.job import Job
from campaign.keep import keep
from campaign.part import Entry
from campaign.state import State, Tally
from campaign.verdict import Verdict

# Failures that look alike are made smaller and kept only so often.
_KEPT_ALIKE: Final = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """What a session does.

    Attributes:
        parts: those that run.
        seconds: until no new batch is started.
        jobs: how many batches run at a time.
        regressions: the folder that failing cases are kept in.
        log: the file for what cases print.
    """

    parts: Sequence[Entry]
    seconds: float
    jobs: int
    regressions: Path
    log: Path


class Session:
    """Runs a plan; what it finds is in the state."""

    def __init__(self, plan: Plan, state: State, tell: Callable[[str], None]) -> None:
        self._plan = plan
        self._state = state
        self._tell = tell
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._kept: dict[tuple[str, str], int] = {}
        self._errors: list[BaseException] = []
        self._end = time.monotonic() + plan.seconds

    def run(self, progress: Callable[[], None]) -> None:
        """Run until the time is over, or an interrupt; ``progress`` is called every second."""
        jobs = [Job(self._plan.log) for _ in range(self._plan.jobs)]
        threads = [threading.Thread(target=self._work, args=(job,)) for job in jobs]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                progress()
                threads[0].join(1.0) if threads[0].is_alive() else time.sleep(0.2)
        except BaseException:
            self._stop.set()
            for job in jobs:
                job.close()
            raise
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
            for job in jobs:
                job.close()
        if self._errors:
            raise self._errors[0]

    def _work(self, job: Job) -> None:
        try:
            while time.monotonic() < self._end and not self._stop.is_set():
                part, first = self._next_batch()
                self._batch(job, part, first)
        except BaseException as error:  # of this thread; raised again by the main one
            if not self._stop.is_set():
                self._errors.append(error)

    def _next_batch(self) -> tuple[Entry, int]:
        """The part that is furthest behind its share, those below their goal first."""
        with self._lock:
            tallies = self._state.tallies
            part = min(
                self._plan.parts,
                key=lambda p: (
                    reached(p, tallies.get(p.name, Tally())),
                    self._state.tally(p.name).wall_s / p.share,
                ),
            )
            tally = self._state.tally(part.name)
            first, tally.next = tally.next, tally.next + part.batch
            tally.wall_s += 1e-3 * part.share  # so that another job takes another part
            return part, first

    def _batch(self, job: Job, part: Entry, first: int) -> None:
        start = time.monotonic()
        seeds = [self._state.case_seed(first + n) for n in range(part.batch)]
        verdicts: list[tuple[int, Verdict]] = []
        cpu_s = 0.0
        for seed, verdict, seconds in job.run(part, seeds):
            verdicts.append((seed, verdict))
            cpu_s += seconds
        with self._lock:
            wall_s = time.monotonic() - start
            self._state.record(part.name, first, part.batch, verdicts, cpu_s, wall_s)
        for seed, verdict in verdicts:
            if verdict.failed:
                self._keep(job, part, seed, verdict)

    def _keep(self, job: Job, part: Entry, seed: int, verdict: Verdict) -> None:
        self._tell(f"{part.name} {seed}: {verdict.outcome}: {verdict.message}")
        key = (part.name, verdict.signature)
        with self._lock:
            self._kept[key] = self._kept.get(key, 0) + 1
            if self._kept[key] > _KEPT_ALIKE:
                return
        case = job.smallest(part, seed, verdict)
        path = keep(self._plan.regressions, part.name, seed, verdict, case)
        self._tell(f"kept as {path}")


def reached(part: Entry, tally: Tally) -> bool:
    """Whether a part has done all that a full campaign asks of it."""
    return all(tally.counts[name] >= least for name, least in part.goal.items())
