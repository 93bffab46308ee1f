from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.measure.result import Failure, Timing
from autosched.search.bandit import allocate_rows, sketch_shares
from autosched.search.drafts import prune
from autosched.search.evolution import evolve
from autosched.search.finish import FinishPolicy, neighbours
from autosched.search.genetic import GeneticPolicy
from autosched.search.measured import Measured
from autosched.search.options import SearchOptions
from autosched.search.sampling import sample_feasible
from autosched.search.scorer import ranking
from autosched.search.selection import Scored, pick
from autosched.search.space_options import SpaceOptions
from autosched.system.errors import OptionError
from autosched.task import Task
from autosched.tasks.candidate import Candidate
from autosched.tuning.options import DEFAULT, TuneOptions, parse_budget
from costmodel.extract import features_of
from sketch.population.population import Population
from tests.support.fake_runner import landscape
from tests.support.targets import AVX512, SMALL
from tests.support.workloads import WORKLOADS, conv2d_relu, matmul_dag

TASK = Task(conv2d_relu(), SMALL)
OPTIONS = SearchOptions(population=256, generations=3, sketch_rows=64)


class Valley:
    """Best where every decision is 2; knows nothing else."""

    def score(self, population: Population) -> np.ndarray:
        return np.exp((np.log2(population.values + 1) - 1.5).__pow__(2).sum(axis=1) * 0.1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", 600), ("90s", 90), ("1h", 3600), ("1h30m", 5400), ("2.5", 2.5), (7, 7), ("1m 5s", 65),
     ("250ms", 0.25), ("1d", 86400)],
)  # fmt: skip
def test_budgets(text: str | float, seconds: float) -> None:
    assert parse_budget(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "ten", "10x", "-5s", "0", "1h30", "nan", True, 0, "m"])
def test_budgets_that_make_no_sense(text: str | float) -> None:
    with pytest.raises(OptionError, match="budget"):
        parse_budget(text)


@pytest.mark.parametrize(
    "change",
    [{"trials": 0}, {"budget_s": -1.0}, {"finish_share": 1.5}, {"strategy": "best"}, {"seed": -1}],
)
def test_options_are_checked(change: dict[str, object]) -> None:
    with pytest.raises(OptionError, match=next(iter(change)).removesuffix("_s")):
        TuneOptions(**change)  # type: ignore[arg-type]


def test_search_options_are_checked() -> None:
    with pytest.raises(OptionError, match="mutation_probability"):
        SearchOptions(mutation_probability=2.0)
    with pytest.raises(OptionError, match="policy"):
        SearchOptions(policy="clever")  # type: ignore[arg-type]
    assert DEFAULT.overridden(budget="2m").budget_s == 120


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_every_workload_has_a_space(name: str) -> None:
    space = Task(WORKLOADS[name](), SMALL).space
    bests = [float(drafts[0]) for drafts in space.drafts]
    assert 1 <= len(space.sketches) <= 48
    assert bests == sorted(bests)
    limit = SpaceOptions().keep_within * bests[0] * (1 + 1e-6)
    far = [n for n, best in enumerate(bests) if best > limit]
    variants = [sketch.variant for sketch in space.sketches]
    assert all(variants[n] not in variants[:n] for n in far)
    assert space.draft_candidate().sketch is space.sketches[0]


def test_pruning_keeps_one_sketch_of_each_variant() -> None:
    task = Task({"good": matmul_dag(), "bad": matmul_dag()}, SMALL)
    items = [
        (p, d * (50 if p.sketch.variant == "bad" else 1))
        for p, d in zip(task.space.samples, task.space.drafts, strict=True)
    ]
    kept = [population.sketch.variant for population, _ in prune(items, SpaceOptions())]
    assert kept.count("bad") == 1 and kept[-1] == "bad"


def test_task_keys_ignore_names_and_targets() -> None:
    first, second = Task(matmul_dag(), SMALL, "a"), Task(matmul_dag(), AVX512, "b", weight=3)
    assert first.key == second.key == first.dag.key
    both = {"one": matmul_dag(), "two": matmul_dag()}
    assert Task(both, SMALL).key == first.key, "another way to compute it is no other task"


def test_shares_favour_what_yielded_most() -> None:
    drafts, trials = np.array([1.0, 1.0, 1.0]), np.array([20, 20, 20])
    shares = sketch_shares(drafts, np.array([1.0, 1.2, np.inf]), trials)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[0] > 2 * shares[1] > 2 * shares[2] > 0


def test_a_sketch_that_was_hardly_tried_is_looked_at_again() -> None:
    drafts, best = np.ones(2), np.array([1.0, 1.2])
    few = sketch_shares(drafts, best, np.array([60, 2]))
    many = sketch_shares(drafts, best, np.array([60, 60]))
    assert few[1] > many[1]


def test_rows_add_up_and_nobody_gets_too_few() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        shares = rng.dirichlet(np.full(int(rng.integers(1, 20)), 0.5))
        rows = allocate_rows(shares, 1000, 128)
        assert rows.sum() == 1000
        assert (rows[rows > 0] >= 128).all()


def test_evolution_finds_the_valley() -> None:
    sketch = TASK.sketches[0]
    rng = np.random.default_rng(0)
    start = sample_feasible(sketch, 256, rng)
    first = Valley().score(start).min()
    options = replace(OPTIONS, generations=6)
    found = evolve(start, Valley(), rng, 256, options)
    assert found.scores.min() < first
    assert len(np.unique(found.population.keys())) == found.population.count


def test_ranking_ignores_the_last_bits() -> None:
    population = sample_feasible(TASK.sketches[0], 64, np.random.default_rng(0))
    scores = np.round(np.random.default_rng(1).random(64), 1) + 0.1
    noisy = scores * (1 + 1e-12 * np.random.default_rng(2).standard_normal(64))
    assert (ranking(population, scores) == ranking(population, noisy)).all()


def test_a_batch_is_diverse_and_keeps_quotas() -> None:
    rng = np.random.default_rng(0)
    pools = []
    for sketch in TASK.sketches[:2]:
        population = sample_feasible(sketch, 400, rng)
        pools.append(Scored(population, Valley().score(population)))
    batch = pick(pools, 12, np.array([8, 8]), 2)
    owners = [c.sketch.key for c in batch]
    assert len(batch) == 12 and max(owners.count(key) for key in owners) <= 8
    for n, one in enumerate(batch):
        for other in batch[:n]:
            if one.sketch is other.sketch:
                assert sum(one.values[k] != other.values[k] for k in one.values) >= 2


def test_a_batch_is_filled_when_there_is_nothing_else() -> None:
    population = sample_feasible(TASK.sketches[0], 6, np.random.default_rng(0))
    batch = pick([Scored(population, np.ones(6))], 6, np.array([1]), 2)
    assert len(batch) == 6


def test_memory_ranks_and_counts() -> None:
    memory = Measured(TASK.sketches)
    rows = sample_feasible(TASK.sketches[1], 3, np.random.default_rng(0))
    batch = [Candidate(TASK.sketches[1], rows.row(n)) for n in range(3)]
    memory.tell(batch, [Timing((2.0,)), Failure("run", "SIGSEGV", "crash"), Timing((1.0,))])
    assert (memory.trials, memory.successes, memory.best_s) == (3, 2, 1.0)
    assert [c.key for _, c in memory.leaders(5)] == [batch[2].key, batch[0].key]
    assert not memory.unseen(rows).any()
    assert (memory.best_rows(TASK.sketches[1], 1).values == rows.values[2]).all()


def test_neighbours_stay_close_and_valid() -> None:
    sketch = TASK.sketches[0]
    rows = sample_feasible(sketch, 20, np.random.default_rng(0))
    for n in range(rows.count):
        near = neighbours(Candidate(sketch, rows.row(n)))
        changed = (near.values != rows.values[n]).sum(axis=1)
        assert near.count and (changed >= 1).all()
        for column, decision in enumerate(sketch.decisions):
            assert np.isin(near.values[:, column], decision.choices).all()


def test_the_finish_descends_to_a_local_minimum() -> None:
    class Draft:
        def score(self, population: Population) -> np.ndarray:
            return features_of(population).draft_seconds()

    memory = Measured(TASK.sketches)
    policy = FinishPolicy(memory, Draft())
    rows = sample_feasible(TASK.sketches[0], 1, np.random.default_rng(5))
    start = Candidate(TASK.sketches[0], rows.row(0))
    policy.tell([start], [Timing((landscape(start),))])
    for _ in range(12):
        batch = policy.ask(8)
        policy.tell(batch, [Timing((landscape(c),)) for c in batch])
    assert memory.best_s < 0.6 * landscape(start)


@pytest.mark.parametrize("known", [16, 24, 32])
def test_parents_of_one_sketch_have_all_the_children(known: int) -> None:
    space = TASK.space
    only = replace(
        space, sketches=space.sketches[:1], samples=space.samples[:1], drafts=space.drafts[:1]
    )
    rows = only.samples[0]
    policy = GeneticPolicy(only, np.random.default_rng(0), replace(OPTIONS, epsilon=0.0))
    parents = [Candidate(rows.sketch, rows.row(n)) for n in range(known)]
    policy.tell(parents, [Timing((1.0 + n,)) for n in range(known)])
    assert len(policy.ask(8)) == 8
