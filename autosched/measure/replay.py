"""A runner that measures nothing: it answers from what a log says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autosched.measure.offline import OfflineRunner
from autosched.measure.protocol import MeasuredTask
from autosched.measure.result import Failure, MeasureResult
from autosched.tasks.candidate import Candidate

CandidateKey = tuple[str, tuple[tuple[str, int], ...]]
"""What ``Candidate.key`` gives."""

NOT_RECORDED = "not recorded"
"""The kind of a failure at stage "run" of a candidate that a table does not have."""


class ReplayRunner(OfflineRunner):
    """Answers with the recorded result of exactly the same program, nothing else.

    A candidate without a record is a ``Failure`` of kind ``"not recorded"``: neighbours may differ
    by any factor, and a guess in the place of a measurement would decide studies of policies.  See
    ``autosched.study`` for policies that propose recorded candidates only.

    Args:
        table: results by task key and ``Candidate.key``.
    """

    def __init__(self, table: Mapping[str, Mapping[CandidateKey, MeasureResult]]) -> None:
        super().__init__()
        self._table = table

    def answer(self, task: MeasuredTask, candidates: Sequence[Candidate]) -> list[MeasureResult]:
        """Recorded results, or failures; see ``OfflineRunner``."""
        known = self._table.get(task.key, {})
        return [known.get(c.key) or _unknown(task, c) for c in candidates]

    def verify(self, task: MeasuredTask, candidate: Candidate) -> float | Failure:
        """The recorded relative error; 0 where only a timing was recorded.

        A result that was found to be wrong is recorded as a failure, so a timing speaks for it.
        """
        (result,) = self.answer(task, [candidate])
        if isinstance(result, Failure):
            return result
        return 0.0 if result.error is None else result.error


def _unknown(task: MeasuredTask, candidate: Candidate) -> Failure:
    values = ", ".join(f"{name}={value}" for name, value in candidate.key[1])
    where = f"sketch {candidate.sketch.key} with {values}" if values else candidate.sketch.key
    return Failure("run", NOT_RECORDED, f"task {task.key} has no record of {where}")
