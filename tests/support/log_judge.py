"""A judge of what becomes of altered logs.

    log = SampleLog.make(folder)
    judge = Judge(log)
    for number in range(3000):                  # about 10 a second, most of it the replay
        mutation = mutate(log, random.Random(number))
        judge.check(mutation)

``Judge.check`` returns "right" or "refused"; anything else is an AssertionError that says how to
repeat it.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from autosched.records.identity import compatible
from autosched.records.log import RecordLog
from autosched.records.rows import row_of
from autosched.records.stats import stats
from autosched.search.recall import Replayer
from autosched.study import recorded_dataset
from sketch.errors import AutoschedError
from tests.support.log_mutations import Mutation, SampleLog


class Judge:
    """Compiles a program with altered logs, and looks at the numbers.

    Equal candidates are built and run once.
    """

    def __init__(self, log: SampleLog) -> None:
        self.log, self.task = log, log.sample.task()
        rng = np.random.default_rng(0)
        self._arrays = {
            tensor.name: rng.standard_normal(tensor.given_shape).astype(np.float32)
            for tensor in self.task.dag.inputs
        }
        self._expected = log.sample.expected(self._arrays)
        self._built: set[str] = set()

    @property
    def built(self) -> int:
        """Candidates that were compiled and run so far."""
        return len(self._built)

    def check(self, mutation: Mutation) -> str:
        """What became of it: "right" or "refused".

        Raises:
            AssertionError: a wrong number, an exception of another kind, an error of several lines,
                or a line that was left out without a word.
        """
        path = self.log.folder / "altered.jsonl"
        path.write_text(mutation.text)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                outcome = self._outcome(path)
        except AssertionError as error:
            raise AssertionError(f"{error} (line {mutation.number}: {mutation.what})") from error
        except Exception as error:
            what = f"raw {type(error).__name__}: {error}"
            raise AssertionError(f"{what} (line {mutation.number}: {mutation.what})") from error
        if outcome == "refused":
            return outcome
        told = [str(item.message) for item in caught]
        used = self._believed(path, mutation.number)
        assert used or any(f"{path}:{mutation.number}:" in text for text in told), mutation.what
        return outcome

    def _outcome(self, path: Path) -> str:
        try:
            candidate = self.task.candidate(path)
            if candidate.key not in self._built:
                constants = {name: self._arrays[name] for name in self.log.sample.constants}
                module = self.task.module(constants, log=path)
                given = {n: array for n, array in self._arrays.items() if n not in constants}
                (result,) = module.run(given).values()
                error = np.abs(result - self._expected).max() / np.abs(self._expected).max()
                assert error < 1e-5, f"wrong result, relative error {error:.2g}"
                self._built.add(candidate.key)
            self._read_on(path)
        except AutoschedError as error:
            assert "\n" not in str(error) and str(path) in str(error), f"odd message: {error}"
            return "refused"
        return "right"

    def _read_on(self, path: Path) -> None:
        """What other commands make of the log: resuming, statistics, tables, cost models."""
        records = RecordLog(path).read().records
        stats(records)
        [row_of(record) for record in records]
        recorded_dataset([self.task], records)

    def _believed(self, path: Path, number: int) -> bool:
        """Whether the altered line is a record that replays, or that nobody needs: of another task
        or machine, a failure, or of a candidate that another line has, too.
        """
        place = f"{path}:{number}"
        records = RecordLog(path).read().records
        record = next((r for r in records if r.where == place), None)
        if record is None:
            return False
        same = [r for r in records if r.candidate_key == record.candidate_key]
        own = compatible(record.target, self.task.target)
        if record.task != self.task.key or not own or len(same) > 1:
            return True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return (
                "seconds" not in str(record.result)
                or Replayer(self.task).replay(record) is not None
            )
