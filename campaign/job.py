"""A job: runs batches of any part, one at a time, each part's in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from campaign.part import Entry
from campaign.verdict import Json, Verdict


class JobError(Exception):
    """The process of a part ended, which no case may cause."""


class Job:
    """The processes of one job, started when they are first needed."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def run(self, part: Entry, seeds: Sequence[int]) -> Iterator[tuple[int, Verdict, float]]:
        """(seed, verdict, CPU seconds) of each case, as they come."""
        for answer in self._ask(part, {"seeds": list(seeds)}):
            yield answer["seed"], Verdict.from_json(answer), answer["cpu_s"]

    def judge(self, part: Entry, case: Json) -> Verdict:
        """The verdict of one case that is given."""
        (answer,) = self._ask(part, {"case": case})
        return Verdict.from_json(answer)

    def smallest(self, part: Entry, seed: int, verdict: Verdict) -> Json:
        """The case of ``seed``, made smaller as long as it fails in the same way."""
        (answer,) = self._ask(part, {"minimise": seed, "outcome": verdict.outcome})
        smaller: Json = answer["case"]
        return smaller

    def close(self) -> None:
        """End all processes."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._processes.clear()

    def _ask(self, part: Entry, request: dict[str, Any]) -> Iterator[Json]:
        process = self._process(part)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            answer = json.loads(line)
            if "end" in answer:
                return
            yield answer
        raise JobError(f"the process of part {part.name} ended; its output is in {self._log}")

    def _process(self, part: Entry) -> subprocess.Popen[str]:
        if part.name not in self._processes:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("a", encoding="utf-8") as log:
                self._processes[part.name] = subprocess.Popen(
                    [sys.executable, "-m", "campaign.hatchery", part.name],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    encoding="utf-8",
                    start_new_session=True,
                )
        return self._processes[part.name]
