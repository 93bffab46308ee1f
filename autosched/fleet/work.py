"""What goes to a machine and what comes back."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from autosched.measure.protocol import MeasuredTask
from autosched.measure.result import Failure, MeasureResult
from autosched.tasks.candidate import Candidate
from sketch.dag.dag import ComputeDAG
from sketch.target.target import Target

Kind = Literal["measure", "remeasure", "verify"]


@dataclass(frozen=True, slots=True)
class SentTask:
    """The part of a task that machines need; see ``MeasuredTask``."""

    key: str
    dag: ComputeDAG
    target: Target


@dataclass(frozen=True, slots=True)
class Work:
    """Candidates of one task, for one machine.

    Attributes:
        kind: what the runner of the machine is asked for.
        task: key of the task.
        content: pickled task and candidates.
        trials: number of candidates.
        rounds: of a re-measurement.
    """

    kind: Kind
    task: str
    content: bytes
    trials: int
    rounds: int = 0

    def unpacked(self) -> tuple[SentTask, list[Candidate]]:
        """On the machine: the task and the candidates."""
        task, candidates = pickle.loads(self.content)
        return task, candidates


@dataclass(frozen=True, slots=True)
class Answer:
    """What a machine found.

    Attributes:
        results: one for each candidate; of a verification the one error or failure.
        sentinel_s: seconds that the sentinel kernel took meanwhile; None: it was not timed.
    """

    results: tuple[MeasureResult | float, ...]
    sentinel_s: float | None = None


def work_of(
    kind: Kind, task: MeasuredTask, candidates: Sequence[Candidate], rounds: int = 0
) -> Work:
    """Candidates packed: sketches without what they have cached, each of them once.

    Args:
        kind: what is asked for.
        task: of the candidates.
        candidates: in the order of their results.
        rounds: of a re-measurement.
    """
    sketches = {c.sketch.key: c.sketch for c in candidates}
    bare = {key: replace(sketch) for key, sketch in sketches.items()}
    sent = [Candidate(bare[c.sketch.key], dict(c.values)) for c in candidates]
    content = pickle.dumps((SentTask(task.key, task.dag, task.target), sent))
    return Work(kind, task.key, content, len(sent), rounds)


def failed(work: Work, failure: Failure) -> Answer:
    """The same failure for all candidates."""
    return Answer((failure,) * work.trials)
