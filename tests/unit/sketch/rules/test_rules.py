"""Generation rules: which sketches a program gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import autosched as asd
from sketch.dag.dag import ComputeDAG
from sketch.errors import ScheduleError
from sketch.lower import lower
from sketch.lower.packing import preparations
from sketch.nest.interpreter import run_nest
from sketch.oracle.interpret import interpret
from sketch.population.population import sample
from sketch.rules.backend import default_rules
from sketch.rules.generate import explore, generate
from sketch.rules.inline import InlineStage
from sketch.rules.rule import State, Verdict
from sketch.rules.simple import schedule_simply
from sketch.rules.tiling import REGISTER_TILE, MultiLevelTilingWithFusion
from sketch.schedule.program import StagePlan
from sketch.schedule.stage import Role
from sketch.schedule.steps import Annotate, Rfactor
from sketch.target.gpu_targets import cuda_target
from sketch.verify import verify
from tests.support.targets import AVX512, SMALL
from tests.support.workloads import WORKLOADS, conv2d_relu, matmul_dag, random_inputs


def test_sketches_of_every_workload(golden: Callable[[str, str], None]) -> None:
    counts = []
    for name, make in WORKLOADS.items():
        sketches = generate(make(), AVX512)
        assert len({s.key for s in sketches}) == len(sketches)
        counts.append(f"{name}: {len(sketches)}")
    golden("counts", "\n".join(counts))


@pytest.mark.parametrize("name", ["matmul", "conv2d_relu", "softmax", "depthwise", "stencil"])
def test_form_of_sketches(name: str, golden: Callable[[str, str], None]) -> None:
    golden(name, "\n\n".join(str(s) for s in generate(WORKLOADS[name](), AVX512)))


def test_form_of_gpu_sketches(golden: Callable[[str, str], None]) -> None:
    dag = matmul_dag(constant=False)
    golden("matmul_gpu", "\n\n".join(str(s) for s in generate(dag, cuda_target("sm_90"))))


@pytest.mark.parametrize("name", WORKLOADS)
def test_nothing_is_left_out_of_small_programs(name: str) -> None:
    found = explore(WORKLOADS[name](), SMALL)
    assert found.sketches
    assert not found.dropped


def test_epilogues_are_fused_into_the_tile() -> None:
    for sketch in generate(conv2d_relu(), AVX512):
        roots = [p for p in sketch.program.stages if p.attach is None]
        assert len(roots) == 1
        assert len(sketch.program.stages) == 2


def test_names_do_not_matter() -> None:
    first = generate(matmul_dag(), AVX512)
    assert [len(s.decisions) for s in first] == [
        len(s.decisions) for s in generate(WORKLOADS["matmul"](), AVX512)
    ]


@dataclass(frozen=True, slots=True)
class OnlySimple:
    """A user's rule: schedule every reduction without tiling."""

    eager: ClassVar[bool] = False

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        return Verdict.APPLY_AND_STOP if stage.op.reduce is not None else Verdict.SKIP

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        return (schedule_simply(state, stage.id),)


def test_user_rules_come_first() -> None:
    sketches = generate(matmul_dag(), AVX512, (OnlySimple(), *default_rules(AVX512)))
    assert len(sketches) == 1
    assert [p.op.name for p in sketches[0].program.stages] == ["C"]


def test_user_rules_are_asked_about_what_a_consumer_would_fuse() -> None:
    """The reduction is tiled with its consumer, unless a rule of the user's stops."""
    dag = conv2d_relu()
    plain = generate(dag, AVX512)
    own = generate(dag, AVX512, (OnlySimple(), *default_rules(AVX512)))
    assert not {s.key for s in own} & {s.key for s in plain}
    for sketch in own:
        assert all(p.attach is None for p in sketch.program.stages if p.op.reduce is not None)
    both = generate(dag, AVX512, (AlsoSimple(), *default_rules(AVX512)))
    assert {s.key for s in both} == {s.key for s in own} | {s.key for s in plain}


def row_means() -> ComputeDAG:
    a, k = asd.placeholder((64, 512), name="A"), asd.reduce_axis(512)
    s = asd.compute((64,), lambda i: asd.sum(a[i, k], axis=[k]), name="S")
    return ComputeDAG([asd.compute((64,), lambda i: s[i] / 512, name="Y")])


def test_reductions_are_split_before_a_consumer_is_fused_with_them() -> None:
    for sketch in generate(row_means(), AVX512):
        assert any(isinstance(step, Rfactor) and step.interleave for step in sketch.steps)
        (combine,) = (p for p in sketch.program.stages if Role.COMBINE in p.roles)
        assert combine.attach is not None


def test_user_rules_are_asked_about_what_would_be_split_for_a_consumer() -> None:
    own = generate(row_means(), AVX512, (OnlySimple(), *default_rules(AVX512)))
    assert [[p.op.name for p in sketch.program.stages] for sketch in own] == [["S", "Y"]]


@dataclass(frozen=True, slots=True)
class AlsoSimple(OnlySimple):
    """A user's rule: the same beside what the built-in rules offer."""

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        return Verdict.APPLY if stage.op.reduce is not None else Verdict.SKIP


def test_tile_structures_are_an_option() -> None:
    rules = tuple(
        MultiLevelTilingWithFusion(structures=(REGISTER_TILE,))
        if isinstance(rule, MultiLevelTilingWithFusion)
        else rule
        for rule in default_rules(AVX512)
    )
    assert len(generate(matmul_dag(), AVX512, rules)) < len(generate(matmul_dag(), AVX512))


@pytest.mark.parametrize("structure", ["SRS", "SSRS", "SSSSRS", "SRSRS", "SSSRSRS"])
def test_the_number_of_tile_levels_is_free(structure: str, rng: np.random.Generator) -> None:
    """Any number of outer levels gives programs that compute the same."""
    rules = (MultiLevelTilingWithFusion(structures=(structure,)), *default_rules(SMALL))
    dag = matmul_dag(7, 9, 5)
    inputs = random_inputs(dag, rng)
    expected = interpret(dag, inputs)["C"]
    for sketch in generate(dag, SMALL, rules):
        levels = structure.count("S")
        plan = sketch.program.named("C")
        assert plan.splits[0][-1] == plan.decision("i", levels - 1)
        row = sample(sketch, 1, rng).row(0)
        nest = lower(sketch, row)
        verify(nest)
        layouts = preparations(sketch, row)
        packed = {k: layouts[k].apply(a) if k in layouts else a for k, a in inputs.items()}
        got = run_nest(nest, packed)["C"].reshape(expected.shape)
        assert np.allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("structure", ["", "RS", "SSR", "SRRS", "SRSRSRS", "SXRS"])
def test_other_structures_are_refused(structure: str) -> None:
    with pytest.raises(ScheduleError, match="no tile structure"):
        MultiLevelTilingWithFusion(structures=(structure,))


@dataclass(frozen=True)
class Forgetful:
    """Never marks a stage as scheduled."""

    eager: ClassVar[bool] = False
    execution: str = "parallel"

    def applies(self, state: State, stage: StagePlan) -> Verdict:
        return Verdict.APPLY

    def apply(self, state: State, stage: StagePlan) -> tuple[State, ...]:
        return (state.then(Annotate(stage.id, stage.loops()[0], self.execution)),)


def test_a_rule_that_schedules_nothing_is_an_error() -> None:
    with pytest.raises(ScheduleError, match=r"Forgetful\(.*\| stage C \| .*done"):
        generate(matmul_dag(), AVX512, (Forgetful(),))


def test_a_loop_of_no_kind_is_an_error() -> None:
    with pytest.raises(ScheduleError, match=r"cannot be 'sideways' \| loop .* one of serial, par"):
        generate(matmul_dag(), AVX512, (Forgetful("sideways"),))


def test_rules_that_leave_a_stage_out_are_an_error() -> None:
    with pytest.raises(ScheduleError, match="no rule applies to stage"):
        generate(matmul_dag(), AVX512, (InlineStage(),))


def test_reductions_may_read_tensors_without_dimensions() -> None:
    x, mean = asd.placeholder((64,), name="x"), asd.placeholder((), name="mean")
    i = asd.reduce_axis(64)
    total = asd.compute((), lambda: asd.sum((x[i] - mean[()]) * (x[i] - mean[()]), axis=i))
    dag = asd.ComputeDAG([total])
    inputs = {"x": np.arange(64.0), "mean": np.array(31.5)}
    for sketch in generate(dag, AVX512):
        row = sample(sketch, 1, np.random.default_rng(0)).row(0)
        (result,) = run_nest(lower(sketch, row), inputs).values()
        np.testing.assert_allclose(result, 21840.0)
