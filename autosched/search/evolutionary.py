"""The default policy: evolution over all sketches under a cost model."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from autosched.measure.result import MeasureResult
from autosched.search.bandit import allocate_rows, sketch_shares
from autosched.search.evolution import evolve
from autosched.search.measured import Measured
from autosched.search.options import SearchOptions
from autosched.search.random_search import draw_unseen
from autosched.search.sampling import sample_feasible
from autosched.search.scorer import Scorer
from autosched.search.selection import Scored, pick
from autosched.search.space import Space
from autosched.search.undecided import undecided_variants
from autosched.tasks.candidate import Candidate
from sketch.population.population import Population, concat, deduplicate
from sketch.population.uncollected import uncollected


class EvolutionaryPolicy:
    """Best measured rows and fresh samples, evolved; the best-scored are proposed.

    Args:
        space: sketches of the task.
        scorer: ranks rows; may learn between two calls of ``ask``.
        rng: source of everything random.
        options: sizes and probabilities.
        measured: memory to share with other policies of the task; None: an own one.
        seeds: candidates to propose first, good ones from another machine, say.
    """

    def __init__(
        self,
        space: Space,
        scorer: Scorer,
        rng: np.random.Generator,
        options: SearchOptions | None = None,
        measured: Measured | None = None,
        seeds: Sequence[Candidate] = (),
    ) -> None:
        self._space, self._scorer, self._rng = space, scorer, rng
        self._options = options or SearchOptions()
        self._measured = measured or Measured(space.sketches)
        self._seeds = list(seeds)

    def ask(self, count: int) -> list[Candidate]:
        """One round; see ``SearchPolicy``."""
        with uncollected():
            return self._round(count)

    def _round(self, count: int) -> list[Candidate]:
        batch = self._next_seeds(count)
        shares = self._shares()
        batch += self._undecided(count - len(batch), shares)
        at_random = self._portion(count - len(batch), self._options.epsilon)
        evolution = self._options.evolution
        curious = evolution.curiosity / (1.0 + self._measured.successes / evolution.curious_trials)
        exploring = self._portion(count - len(batch) - at_random, curious)
        batch += self._evolved(count - len(batch) - at_random - exploring, shares)
        batch += self._explored(exploring, shares)
        batch += draw_unseen(self._measured, count - len(batch), shares, self._rng)
        return batch

    def tell(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """Remember results; see ``SearchPolicy``."""
        self._measured.tell(candidates, results)

    def _shares(self) -> NDArray[np.float64]:
        sketches = self._measured.sketches
        drafts = np.full(len(sketches), np.inf)
        drafts[: len(self._space.sketches)] = [float(d[0]) for d in self._space.drafts]
        return sketch_shares(
            drafts,
            self._measured.best_of_sketches(),
            self._measured.trials_of_sketches(),
            self._options.bandit,
        )

    def _portion(self, count: int, share: float) -> int:
        """``share`` of a batch, rounded at random."""
        wanted = count * share
        return min(count, int(wanted) + int(self._rng.random() < wanted % 1))

    def _undecided(self, count: int, shares: NDArray[np.float64]) -> list[Candidate]:
        """One candidate of each variant that may still win: the best-scored of its samples."""
        measured, bandit = self._measured, self._options.bandit
        names = undecided_variants(
            measured.times_of_variants(), measured.trials_of_variants(), bandit
        )
        places: dict[str, list[int]] = {}
        for number, sketch in enumerate(self._space.sketches):
            places.setdefault(sketch.variant, []).append(number)
        searched = [name for name in names if name in places]  # a log may know others
        wanted = math.ceil(bandit.variant_share * count)
        if wanted:
            asked = measured.asked_of_variants()
            wanted = max(wanted, min(sum(not asked[name] for name in searched), count // 2))
        batch: list[Candidate] = []
        for name in searched[:wanted]:
            own = places[name]
            rows = self._space.samples[max(own, key=lambda n: float(shares[n]))]
            # Before anything was measured, the order in which the draft has them is all there is.
            most = bandit.variant_rows if measured.trials else 1
            rows = rows.take(np.flatnonzero(measured.unseen(rows))[:most])
            if rows.count == 1:
                batch.append(Candidate(rows.sketch, rows.row(0)))
            elif rows.count:
                batch.append(Scored(rows, self._scorer.score(rows)).best(1).candidate(0))
        measured.note_asked(batch)
        return batch

    def _explored(self, count: int, shares: NDArray[np.float64]) -> list[Candidate]:
        """Samples that the draft model likes but were not evolved: what shows a model its mistakes.

        They cost no thinking: the space has them in order.
        """
        batch: list[Candidate] = []
        wanted = self._rng.multinomial(count, shares)
        for index in np.flatnonzero(wanted[: len(self._space.samples)]).tolist():
            rows = self._space.samples[index]
            rows = rows.take(np.flatnonzero(self._measured.unseen(rows)))
            good = self._rng.permutation(max(1, rows.count // self._options.evolution.good))[
                : wanted[index]
            ]
            drawn = good[good < rows.count].tolist()
            batch += [Candidate(rows.sketch, rows.row(n)) for n in drawn]
        self._measured.note_asked(batch)
        return batch

    def _evolved(self, count: int, shares: NDArray[np.float64]) -> list[Candidate]:
        if count <= 0:
            return []
        options = self._options
        population = min(
            options.population,
            max(2 * options.sketch_rows, options.evolution.rows_a_trial * count),
        )
        rows = allocate_rows(shares, population, options.sketch_rows)
        pools: list[Scored] = []
        active: list[int] = []
        for index in np.flatnonzero(rows).tolist():
            pool = self._evolve_sketch(index, int(rows[index]))
            if len(pool.scores):
                pools.append(pool)
                active.append(index)
        if not pools:
            return []
        part = shares[active] / shares[active].sum()
        quotas = np.ceil(options.evolution.quota * part * count).astype(np.int64)
        batch = pick(pools, count, quotas, options.evolution.distance)
        self._measured.note_asked(batch)
        return batch

    def _evolve_sketch(self, index: int, rows: int) -> Scored:
        sketch = self._measured.sketches[index]
        best = self._measured.best_rows(sketch, int(self._options.measured_share * rows))
        parts: list[Population] = [best]
        if index < len(self._space.samples):
            drafted = self._space.samples[index]
            wanted = int(self._options.evolution.draft_share * rows)
            parts.append(drafted.take(np.arange(min(drafted.count, wanted))))
        known = sum(part.count for part in parts)
        parts.append(sample_feasible(sketch, max(1, rows - known), self._rng))
        start = deduplicate(concat(parts))
        pool = evolve(start, self._scorer, self._rng, rows, self._options)
        fresh = np.flatnonzero(self._measured.unseen(pool.population))
        return Scored(pool.population.take(fresh), pool.scores[fresh])

    def _next_seeds(self, count: int) -> list[Candidate]:
        batch: list[Candidate] = []
        while self._seeds and len(batch) < count:
            seed = self._seeds.pop(0)
            if self._measured.is_new(seed):
                self._measured.note_asked([seed])
                batch.append(seed)
        return batch
