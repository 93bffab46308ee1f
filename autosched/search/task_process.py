"""What the measured programs of a task say about others near them: the process of one task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from autosched.measure.result import Failure, MeasureResult
from autosched.tasks.candidate import Candidate
from sketch.population.population import Population, from_rows

if TYPE_CHECKING:
    from costmodel.decision_process import DecisionProcess, MeasuredRows

Floats = NDArray[np.float64]

# Successes before it says anything: the mean of fewer is mostly noise.
_FEWEST: Final = 4
# Programs that it goes by: half of them the fastest, half the newest.  It costs their cube.
_MOST: Final = 256


class TaskProcess:
    """A Gaussian process over the decisions, fitted again when it is asked after new results.

    ``draft``: whether it predicts what the draft model gets wrong; else the time itself.
    """

    def __init__(self, draft: bool = True) -> None:
        self._draft = draft
        self._candidates: list[Candidate] = []
        self._times: list[float] = []  # logarithms
        self._fitted: DecisionProcess | None = None
        self._stale = False

    def tell(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """Results of candidates, one each; failures say nothing."""
        for candidate, result in zip(candidates, results, strict=True):
            if not isinstance(result, Failure):
                self._candidates.append(candidate)
                self._times.append(math.log(result.median))
                self._stale = True

    def scale(self, factor: float) -> None:
        """Multiply all times."""
        self._times = [time + math.log(factor) for time in self._times]
        self._stale = True

    def errors(self, population: Population) -> Floats | None:
        """[P]: expected logarithm of the time over the draft's; None while little is known."""
        if self._stale and len(self._times) >= _FEWEST:
            from costmodel.decision_process import DecisionProcess

            self._fitted, self._stale = DecisionProcess(self._measured()), False
        return None if self._fitted is None else self._fitted.errors(population)

    def _measured(self) -> list[MeasuredRows]:
        from costmodel.decision_process import MeasuredRows
        from costmodel.extract import draft_seconds

        groups: dict[str, list[int]] = {}
        for number in self._chosen():
            groups.setdefault(self._candidates[number].sketch.key, []).append(number)
        found = []
        for members in groups.values():
            sketch = self._candidates[members[0]].sketch
            rows = from_rows(sketch, [self._candidates[n].values for n in members])
            drafts = np.log(draft_seconds(rows)) if self._draft else np.zeros(len(members))
            found.append(MeasuredRows(rows, np.array([self._times[n] for n in members]) - drafts))
        return found

    def _chosen(self) -> list[int]:
        """Numbers of the programs that it goes by, ascending."""
        count = len(self._times)
        if count <= _MOST:
            return list(range(count))
        newest = range(count - _MOST // 2, count)
        fastest = np.argsort(np.array(self._times), kind="stable")
        others = [n for n in fastest.tolist() if n < newest.start][: _MOST - len(newest)]
        return [*sorted(others), *newest]
