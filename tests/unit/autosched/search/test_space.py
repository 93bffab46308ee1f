"""Every program has a schedule on every instruction set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import numpy as np
import pytest

from autosched.search.sampling import sample_feasible
from autosched.search.space import build_space
from autosched.search.space_options import SpaceOptions
from autosched.system.user_warnings import AutoschedWarning
from autosched.task import Task
from autosched.tasks.spec import Variant
from codegen.host import INSTRUCTION_SETS, cpu_target
from costmodel.extract import draft_seconds
from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError
from sketch.lang.reducers import sum as sum_
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.operators.conv import conv2d
from sketch.operators.elementwise import relu
from sketch.operators.normalization import normalize
from sketch.operators.pooling import global_avg_pool
from sketch.population.feasible import feasible, fills
from sketch.population.population import Population
from sketch.rules.generate import explore
from sketch.rules.rule import State, Verdict
from sketch.schedule.program import StagePlan
from sketch.schedule.sketch import Sketch
from sketch.target.gpu_targets import cuda_target
from tests.support.targets import SMALL
from tests.support.workloads import matmul_dag


def assert_feasible(task: Task) -> None:
    candidate = task.draft_candidate(quick=True)
    assert feasible(candidate.sketch, dict(candidate.values)).all()


def pooled() -> ComputeDAG:
    return ComputeDAG([global_avg_pool(placeholder((1, 7, 7, 512), name="data"))])


def normalized() -> ComputeDAG:
    return ComputeDAG([normalize(placeholder((128, 768), name="data"), (1,), 1e-5)])


@pytest.mark.parametrize("name", [choice.name for choice in INSTRUCTION_SETS])
@pytest.mark.parametrize("make", [pooled, normalized, lambda: matmul_dag(1, 1000, 512)])
def test_reductions_with_few_rows(name, make):
    assert_feasible(Task(make(), cpu_target(name, threads=1)))


@pytest.mark.parametrize("registers", [8, 16])
@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_products_of_any_width(rows, registers):
    """Neither the rows nor the registers suffice for 12 accumulators."""
    target = replace(cpu_target("cpu-avx2", threads=1), registers=registers)
    for vectors in (1, 2, 3, 6, 7, 11, 13):
        assert_feasible(Task(matmul_dag(rows, 8 * vectors, 16), target))


def chain(length: int) -> ComputeDAG:
    """A product, and ``length`` times its difference from the sums of its rows: many locations."""
    tensor = matmul_dag().outputs[0]
    for n in range(length):
        tensor = less_its_sums(tensor, n)
    return ComputeDAG([tensor])


def less_its_sums(tensor: Tensor, number: int) -> Tensor:
    rows, columns = tensor.given_shape
    k = reduce_axis(columns, "k")
    sums = compute((rows,), lambda i: sum_(tensor[i, k], axis=k), name=f"sums{number}")
    rest = compute((rows, columns), lambda i, j: tensor[i, j] - sums[i], name=f"rest{number}")
    assert isinstance(rest, Tensor)
    return rest


def test_the_cap_keeps_what_the_draft_likes_best() -> None:
    dag, target = chain(1), cpu_target("cpu-avx2")
    variants = (Variant("direct", dag), Variant("again", dag))
    whole = [sketch for v in variants for sketch in explore(dag, target, None, v.name).sketches]
    assert len(whole) > 3
    free = build_space(variants, target)
    capped = build_space(variants, target, options=SpaceOptions(most=3))
    assert free.cut == ()
    drafts = {
        (sketch.variant, sketch.key): float(draft_seconds(rows, once=True).min())
        for sketch in whole
        if (rows := sample_feasible(sketch, 64, rng_of(sketch), 1)).count
    }
    cut = {(sketch.variant, sketch.key): seconds for sketch, seconds in capped.cut}
    assert cut == {name: drafts[name] for name in cut} and len(cut) == len(drafts) - 3
    assert list(cut.values()) == sorted(cut.values())
    kept = sorted(set(drafts) - cut.keys(), key=lambda name: drafts[name])
    assert {variant for variant, _ in kept} == {"direct", "again"}
    assert sorted(drafts.values())[:2] == [drafts[name] for name in kept[:2]]
    assert {(s.variant, s.key) for s in capped.sketches} <= set(kept)


@cache
def described(options: SpaceOptions) -> list[tuple[str, float]]:
    """What a space has: the rows of each sketch, and the seconds of those that were cut."""
    variants = [Variant(name, CHAIN) for name in ("direct", "again")]
    space = build_space(variants, cpu_target("cpu-avx2"), options=options)
    kept = zip(space.sketches, space.samples, strict=True)
    return [*((sketch.key, rows.count) for sketch, rows in kept),
            *((sketch.key, seconds) for sketch, seconds in space.cut)]  # fmt: skip


CHAIN = chain(1)
FEW = SpaceOptions(rows=64, most=3)


@pytest.mark.parametrize(
    "change",
    [{"rows": 16}, {"few_rows": 2}, {"keep_within": 1.0}, {"most": 2},
     {"long_program": 1, "most_of_long": 1}],
)  # fmt: skip
def test_every_field_acts_on_the_space(change: dict[str, float]) -> None:
    assert described(replace(FEW, **change)) != described(FEW)  # type: ignore[arg-type]


def test_a_descent_begins_with_the_best_random_row() -> None:
    one_row = SpaceOptions(rows=1, most=3)
    still = described(replace(one_row, descents=0))
    assert described(replace(one_row, least_gain=1.0)) == still  # no neighbour is so much better
    assert described(one_row) != still


def test_descents_from_several_rows_end_at_better_ones() -> None:
    def best(starts: int) -> float:
        options = replace(FEW, most=1, starts=starts)
        variants, target = [Variant("direct", matmul_dag(128, 128, 128))], cpu_target("cpu-avx2")
        return float(build_space(variants, target, options=options).drafts[0][0])

    assert best(8) < 0.95 * best(1)


def rng_of(sketch: Sketch) -> np.random.Generator:
    return np.random.default_rng(int(sketch.key, 16))


@dataclass(frozen=True)
class SumsAlone:
    """Schedules sums as they are written, and knows no other stages."""

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        return Verdict.SKIP if stage.op.reduce is None else Verdict.APPLY_AND_STOP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        return (state.done([stage.id]),)


@pytest.mark.parametrize("case", [(14, 256, 512, 1, 2), (112, 24, 96, 1, 1)])
def test_what_is_compiled_for_a_gpu_without_a_record_uses_all_of_it(
    case: tuple[int, int, int, int, int],
) -> None:
    """The draft likes rows slightly better that leave processors or their schedulers idle."""
    size, channels, filters, taps, stride = case
    data = placeholder((1, size, size, channels), name="data")
    weight = placeholder((taps, taps, channels, filters), name="weight", constant=True)
    space = build_space(
        [Variant("direct", ComputeDAG([conv2d(data, weight, stride)]))], cuda_target("h200")
    )
    pick = space.draft_candidate()
    assert fills(pick.sketch, pick.values).all()
    found = draft_seconds(Population(pick.sketch, space.samples[0].values[:1]))
    assert found[0] == pytest.approx(space.drafts[0][0])
    least = min(draft_seconds(rows).min() for rows in space.samples)
    assert found[0] < 1.3 * least


def test_rows_of_a_cpu_use_all_of_it() -> None:
    (sketch, *_) = explore(matmul_dag(64, 64, 64), SMALL).sketches
    rows = sample_feasible(sketch, 16, np.random.default_rng(0))
    assert fills(sketch, rows.columns()).tolist() == [True] * rows.count


def test_rules_for_the_program_as_it_is_written_need_not_know_its_variants() -> None:
    image = placeholder((1, 6, 6, 16), name="x")
    weight = placeholder((3, 3, 16, 16), name="w", constant=True)
    task = Task(ComputeDAG([conv2d(image, weight, padding=1)]), SMALL, rules=(SumsAlone(),))
    assert len(task.variants) > 1
    with pytest.warns(AutoschedWarning, match=r"variant winograd-4 is not searched: no rule app"):
        assert {sketch.variant for sketch in task.sketches} == {"direct"}


def test_rules_that_do_not_know_the_program_are_refused() -> None:
    data = placeholder((8, 8), name="x")
    task = Task(ComputeDAG([relu(data)]), SMALL, rules=(SumsAlone(),))
    with pytest.raises(ScheduleError, match="no rule applies to stage relu"):
        _ = task.sketches
