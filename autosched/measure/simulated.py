"""A runner that computes what a candidate might take: for tests, notebooks and policy studies."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from autosched.measure.offline import OfflineRunner
from autosched.measure.protocol import MeasuredTask
from autosched.measure.result import Failure, MeasureResult, Timing
from autosched.system.errors import OptionError
from autosched.tasks.candidate import Candidate
from sketch.population.population import Population, from_rows

# log2 of the largest value at which a decision can be best on the simulated machine.
_LARGEST_BEST: Final = 5.0


class SimulatedRunner(OfflineRunner):
    """Times from the analytic draft model, bent and disturbed; nothing is compiled.

        seconds = draft * exp(bias * sum_d (log2(v_d + 1) - b_d)**2 / D + noise * N(0, 1))

    over the D decisions of a candidate.  Where each decision is best (``b_d``) depends on its name
    and the seed, so there is something to learn that the draft model does not know.  The noise is
    drawn from the candidate and the seed: asked again, it takes the same time, in another order
    and in another process, too.

    Args:
        seed: of the machine that is simulated.
        bias: how much the draft model misses; 0: it knows everything but the noise.
        noise: standard deviation of the logarithm of a time.
        failure_share: share of the candidates that fail, as if the kernel had crashed.

    Raises:
        OptionError: a negative bias or noise, or a share outside [0, 1].
    """

    def __init__(
        self, seed: int = 0, bias: float = 0.3, noise: float = 0.05, failure_share: float = 0.0
    ) -> None:
        super().__init__()
        if bias < 0 or noise < 0 or not 0 <= failure_share <= 1:
            raise OptionError(
                f"bias {bias}, noise {noise} and failure share {failure_share} make no machine",
                hint="bias and noise are not negative, the share is within [0, 1]",
            )
        self._seed, self._bias, self._noise = seed, bias, noise
        self._failure_share = failure_share

    def answer(self, task: MeasuredTask, candidates: Sequence[Candidate]) -> list[MeasureResult]:
        """Simulated timings; see ``OfflineRunner``."""
        groups: dict[str, list[int]] = {}
        for n, candidate in enumerate(candidates):
            groups.setdefault(candidate.sketch.key, []).append(n)
        results: dict[int, MeasureResult] = {}
        for members in groups.values():
            rows = [candidates[n].values for n in members]
            seconds = self._seconds(from_rows(candidates[members[0]].sketch, rows))
            for n, time in zip(members, seconds.tolist(), strict=True):
                results[n] = self._disturbed(candidates[n], time)
        return [results[n] for n in range(len(candidates))]

    def verify(self, task: MeasuredTask, candidate: Candidate) -> float | Failure:
        """0: what is not computed cannot be wrong."""
        return 0.0

    def _seconds(self, population: Population) -> NDArray[np.float64]:
        """[P]: times without noise."""
        from costmodel.extract import draft_seconds

        draft = draft_seconds(population)
        distance = np.zeros(population.count)
        labels = population.sketch.labels
        for name, column in population.columns().items():
            best = _LARGEST_BEST * self._draws(labels[name]).random()
            distance += (np.log2(column + 1.0) - best) ** 2
        return np.asarray(
            draft * np.exp(self._bias * distance / max(1, len(population.sketch.decisions)))
        )

    def _disturbed(self, candidate: Candidate, seconds: float) -> MeasureResult:
        draws = self._draws(repr(candidate.key))
        if draws.random() < self._failure_share:
            return Failure("run", "Simulated", "the simulated kernel crashed")
        return Timing((seconds * float(np.exp(self._noise * draws.standard_normal())),))

    def _draws(self, name: str) -> np.random.Generator:
        """A generator that depends on the seed and a name alone."""
        digest = hashlib.sha256(f"{self._seed}:{name}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "big"))
