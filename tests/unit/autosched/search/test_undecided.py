"""No variant is left before it is known to be slower."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from autosched.measure.result import Timing
from autosched.measure.simulated import SimulatedRunner
from autosched.search.evolutionary import EvolutionaryPolicy
from autosched.search.models import make_model
from autosched.search.options import BanditOptions, SearchOptions
from autosched.search.scorer import Floats, ModelScorer
from autosched.search.space import space_of
from autosched.search.undecided import undecided_variants
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from sketch.population.population import Population
from tests.support.targets import AVX512
from tests.support.workloads import conv2d_relu

USUAL = BanditOptions()
TASK = Task(conv2d_relu(16, 16), AVX512)


def test_a_variant_is_tried_until_its_interval_excludes_the_best() -> None:
    times = {"a": [1.0, 1.1], "close": [1.3, 1.4], "far": [3.0, 3.1], "few": [5.0], "none": []}
    trials = {"a": 2, "close": 2, "far": 2, "few": 1, "none": 1}
    # 1.3 * (1.3 / 1.4) ** 4 is below 1, 3 * (3 / 3.1) ** 4 is not.
    assert undecided_variants(times, trials, USUAL) == ["few", "none", "a", "close"]
    surer = replace(USUAL, variant_doubt=0.5)
    assert undecided_variants(times, trials, surer) == ["few", "none", "a"]


def test_it_ends() -> None:
    assert undecided_variants({"a": [1.0, 2.0], "b": []}, {"a": 16, "b": 2}, USUAL) == []
    assert undecided_variants({"a": []}, {"a": 0}, USUAL) == []
    assert undecided_variants({"a": [], "b": []}, {"a": 0, "b": 0}, USUAL) == ["a", "b"]


class Mistaken(ModelScorer):
    """The draft, which is wrong about one variant, which is not its favourite; counts rows."""

    rows = 0

    def score(self, population: Population) -> Floats:
        scores = super().score(population)
        self.rows += population.count
        return scores * 100 if population.sketch.variant == "winograd-4" else scores


def tried(options: BanditOptions, scorer: Mistaken | None = None) -> int:
    """Trials of that variant in three batches."""
    search = SearchOptions(population=128, generations=0, sketch_rows=64, bandit=options)
    scorer = scorer or Mistaken(make_model("draft", 0), lambda: 0.0)
    policy = EvolutionaryPolicy(space_of(TASK), scorer, np.random.default_rng(0), search)
    runner, count = SimulatedRunner(), 0
    for _ in range(3):
        batch = policy.ask(8)
        assert len(batch) == 8 and len({candidate.key for candidate in batch}) == 8
        policy.tell(batch, runner.measure(TASK, batch))
        count += sum(candidate.sketch.variant == "winograd-4" for candidate in batch)
    return count


def test_every_variant_gets_its_trials() -> None:
    greedy = replace(USUAL, optimism=0.0, sharpness=40.0, draft_trust=4.0)
    assert tried(replace(greedy, variant_share=0.0)) == 0
    assert tried(greedy) >= 2  # one shows no interval


def test_few_samples_of_a_variant_are_scored() -> None:
    many, few = (Mistaken(make_model("draft", 0), lambda: 0.0) for _ in range(2))
    tried(USUAL, many)
    tried(replace(USUAL, variant_rows=4), few)
    assert few.rows < many.rows


def test_variants_that_only_a_log_knows_take_no_place() -> None:
    """Such as retired ones: they never get more trials."""
    known, other = (variant.name for variant in TASK.variants[:2])
    searched = Task(TASK.variants[:2], TASK.target)
    scorer = ModelScorer(make_model("draft", 0), lambda: 0.0)
    search = SearchOptions(population=128, generations=0, sketch_rows=64)
    whole = space_of(TASK)
    names = [variant.name for variant in TASK.variants]

    def rows(name: str, count: int) -> list[Candidate]:
        place = next(n for n, s in enumerate(whole.sketches) if s.variant == name)
        samples = whole.samples[place]
        return [Candidate(samples.sketch, samples.row(n)) for n in range(count)]

    told = [(c, 1.0 + 0.1 * n) for n, c in enumerate(rows(known, 3))]
    told += [(c, 1.2 + 0.3 * n) for n, c in enumerate(rows(other, 2))]
    told += [(rows(names[2], 1)[0], 1.5)]
    policy = EvolutionaryPolicy(space_of(searched), scorer, np.random.default_rng(0), search)
    policy.tell([c for c, _ in told], [Timing((seconds,)) for _, seconds in told])
    assert other in {candidate.sketch.variant for candidate in policy.ask(4)}


def test_every_variant_is_in_the_first_batch() -> None:
    """However small it is, and once only where nothing comes back between two batches."""
    names = {variant.name for variant in TASK.variants}
    scorer = ModelScorer(make_model("draft", 0), lambda: 0.0)
    greedy = replace(USUAL, optimism=0.0, sharpness=40.0, draft_trust=4.0)
    search = SearchOptions(
        population=128, generations=0, sketch_rows=64, epsilon=0.0, bandit=greedy
    )
    policy = EvolutionaryPolicy(space_of(TASK), scorer, np.random.default_rng(0), search)
    assert len(names) == 3  # a quarter of a batch would be one of them
    first, second = (
        Counter(candidate.sketch.variant for candidate in policy.ask(6)) for _ in range(2)
    )
    assert set(first) == names and max(second.values()) >= 5
