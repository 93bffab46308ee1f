"""Kills of every process of a tuning session, and what must hold after each."""

from __future__ import annotations

import os
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Final

from autosched.records.log import RecordLog
from autosched.tuning.options import TuneOptions
from campaign.files.programs import SUBJECTS, is_right, subject
from campaign.part import Mark
from campaign.processes import adopt_orphans, children, descendants, die_with_parent
from campaign.verdict import Json, Verdict

_SIGNALS: Final = (signal.SIGKILL, signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT)
_ROLES: Final = ("tuner", "zygote", "child", "child")
_TRIALS: Final = 32
_GONE_S: Final = 60.0
_APPEARS_S: Final = 20.0


# Imported before the tuners are forked, so that none of them spends its life on that.
for _name in (
    "lightgbm", "autosched.tuning.run", "autosched.tuning.loop", "autosched.search.space",
    "autosched.search.evolutionary", "autosched.measure.runner", "costmodel.gbdt",
    "costmodel.extract.recorded", "autosched.search.models",
):  # fmt: skip
    import_module(_name)


class KillsPart:
    """A session that is killed again and again reaches its end, and loses nothing."""

    def draw(self, seed: int) -> Json:
        """The task, and which roles are killed after which pauses."""
        rng = Random(seed)
        pause = rng.choice((0.01, 0.03, 0.1))
        roles = rng.choice((("tuner",), ("zygote", "child"), ("child",), _ROLES, _ROLES))
        kills = [
            [rng.choice(roles), rng.expovariate(1 / pause), rng.randrange(len(_SIGNALS))]
            for _ in range(rng.choice((12, 20)))
        ]
        threads = rng.choice((1, 1, 2))
        return {"subject": rng.randrange(SUBJECTS), "kills": kills, "threads": threads}

    def judge(self, case: Json, mark: Mark) -> Verdict:
        """Run the session through all its kills."""
        warnings.simplefilter("ignore")
        adopt_orphans()
        counts: Counter[str] = Counter(sessions=1)
        with tempfile.TemporaryDirectory() as place:
            problem = _Session(case, Path(place), counts).run(mark)
        return Verdict("wrong" if problem else "right", problem or "", dict(counts))

    def smaller(self, case: Json) -> Iterator[Json]:
        """Fewer kills."""
        for place in range(len(case["kills"])):
            yield {**case, "kills": case["kills"][:place] + case["kills"][place + 1 :]}


class _Session:
    """One log, one tuner at a time."""

    def __init__(self, case: Json, place: Path, counts: Counter[str]) -> None:
        self._case = case
        self._log = place / "session.jsonl"
        self._temporary = place / "tmp"
        self._temporary.mkdir()
        self._said = place / "said"
        self._counts = counts
        self._seen = b""

    def run(self, mark: Mark) -> str | None:
        """What is wrong, if anything."""
        tuner = self._start()
        for number, (role, pause, which) in enumerate(self._case["kills"]):
            mark(f"kill {number} of {role}")
            self._kill(tuner, role, pause, _SIGNALS[which])
            if role != "tuner" and not self._ended(tuner):
                continue
            problem = self._after_death(tuner, role == "tuner")
            if problem is not None:
                return f"{problem} after kill {number} of {role}"
            tuner = self._start()
            if self._trials() >= _TRIALS:
                break
        mark("the end")
        if (problem := self._after_death(tuner, False)) is not None:
            return problem
        if self._trials() < _TRIALS:  # it gave up, because all that it started was killed
            problem = self._after_death(self._start(), False)
        return problem or self._final()

    def _start(self) -> int:
        tuner = os.fork()
        if tuner == 0:
            code = 1
            die_with_parent()
            try:
                os.environ["TMPDIR"] = tempfile.tempdir = str(self._temporary)
                which = subject(self._case["subject"])
                task = which.task
                task.tune(trials=_TRIALS, log=self._log, options=TuneOptions(), quiet=True)
                code = 0
            except BaseException as error:
                self._said.write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
            finally:
                os._exit(code)
        return tuner

    def _kill(self, tuner: int, role: str, pause: float, how: signal.Signals) -> None:
        """Kill a process of the role, a moment after there is one."""
        end = time.monotonic() + _APPEARS_S
        while not (found := self._processes(tuner, role)):
            if self._ended(tuner) or time.monotonic() > end:
                return
            time.sleep(0.001)
        time.sleep(pause)
        found = self._processes(tuner, role)
        if found and not (role == "tuner" and self._ended(tuner)):
            with suppress(ProcessLookupError):
                os.kill(found[0], how)
                self._counts["kills"] += 1
                self._counts[f"of_{role}"] += 1

    def _processes(self, tuner: int, role: str) -> list[int]:
        if role == "tuner":
            return [tuner]
        zygotes = children(tuner)
        if role == "zygote":
            return zygotes
        return [pid for zygote in zygotes for pid in children(zygote)][::-1]

    def _ended(self, tuner: int) -> bool:
        """Whether the tuner is through; it stays a zombie."""
        return os.waitid(os.P_PID, tuner, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _after_death(self, tuner: int, killed: bool) -> str | None:
        _, status = os.waitpid(tuner, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == 1 and self._counts["of_child"] and "none of" in self._words():
            self._counts["gave_up"] += 1  # by design: nothing ran at all
        elif code > 0 or (code < 0 and not killed):
            return f"the session is lost with {code}: {self._words()}"
        return self._invariants()

    def _words(self) -> str:
        return self._said.read_text(encoding="utf-8")[:300] if self._said.exists() else "no word"

    def _invariants(self) -> str | None:
        """The log only grew, no process and no temporary file is left."""
        end = time.monotonic() + _GONE_S
        while descendants(os.getpid()):
            if time.monotonic() > end:
                return f"{len(descendants(os.getpid()))} processes are left"
            _reap()
            time.sleep(0.002)
        content = self._log.read_bytes() if self._log.exists() else b""
        whole = self._seen[: self._seen.rfind(b"\n") + 1]
        if not content.startswith(whole):
            return "the log lost or changed a line"
        self._seen = content
        left = [path.name for path in self._temporary.rglob("*") if path.is_file()]
        return f"temporary files are left: {left[:3]}" if left else None

    def _trials(self) -> int:
        return self._seen.count(b'"phase":"trial"')

    def _final(self) -> str | None:
        """The log holds all trials and its best candidate computes the right thing."""
        found = RecordLog(self._log).read()
        trials = sum(record.phase == "trial" for record in found.records)
        torn = [w for w in found.warnings if "torn" not in w]
        if trials < _TRIALS:
            return f"the log has {trials} of {_TRIALS} trials"
        if len(torn) > self._counts["of_tuner"]:
            return f"{len(torn)} lines are damaged: {torn[0]}"
        which = subject(self._case["subject"])
        module = which.task.module(dict(which.constants), log=self._log)
        result = module.run(dict(which.inputs))[which.output]
        return None if is_right(which, result) else "the best candidate computes a wrong result"


def _reap() -> None:
    """Collect children that ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


PART: Final = KillsPart()
