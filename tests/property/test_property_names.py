"""Names of stages, placeholders and axes change nothing: neither results nor what is searched."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched.measure.protocol import Candidate
from autosched.measure.result import Timing
from autosched.records.old_names import Names, with_names
from autosched.records.record import Record, record_of
from autosched.records.shared import lines_of
from autosched.search.space import build_space
from autosched.tasks.spec import Variant
from codegen.build import build
from codegen.host import host_target
from codegen.kernel import Kernel
from sketch.dag.dag import ComputeDAG
from sketch.errors import ExpressionError
from sketch.lang import reducers
from sketch.lang.expr import unary
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.oracle.expected import relative_error
from sketch.oracle.interpret import interpret
from sketch.population.population import Population, sample
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.schedule.steps import Split
from sketch.target.gpu_targets import cuda_target
from sketch.target.target import Target
from sketch.verify import verify
from tests.support.compiled import run_compiled
from tests.support.examples import examples
from tests.support.odd_names import names_of, renamed
from tests.support.random_programs import programs
from tests.support.workloads import WORKLOADS, random_inputs

TARGETS = {
    "host, two threads": host_target(2),
    "8 lanes, 16 registers": replace(host_target(1), vector_bytes=32, registers=16),
}


def recorded(sketch: Sketch, values: np.ndarray) -> Record:
    candidate = Candidate(sketch, Population(sketch, values).row(0))
    return record_of("a task", candidate, sketch.target, Timing((1.0,)))


def check(plain: ComputeDAG, odd: ComputeDAG, target: Target, choice: int, seed: int) -> None:
    """The odd program has the plain one's sketches and, in one of them, its results."""
    assert odd.key == plain.key
    ours, theirs = generate(plain, target), generate(odd, target)
    assert [s.key for s in theirs] == [s.key for s in ours]
    rng = np.random.default_rng(seed)
    number = choice % len(ours)
    rows = sample(ours[number], 1, rng)
    record = recorded(ours[number], rows.values)
    assert list(lines_of([record], {})) == list(
        lines_of([recorded(theirs[number], rows.values)], {})
    )
    replayed = record.candidate(odd)
    sketch, values = replayed.sketch, replayed.values
    assert sketch.steps == theirs[number].steps
    assert record.candidate(plain).sketch.steps == ours[number].steps
    inputs = random_inputs(odd, rng)
    verify(lower(sketch, values))
    outputs = run_compiled(sketch, values, inputs, target)
    for name, expected in interpret(odd, inputs).items():
        assert relative_error(outputs[name].reshape(np.shape(expected)), expected) < 1e-5


@examples(40)
@given(
    data=st.data(),
    name=st.sampled_from(sorted(WORKLOADS)),
    target=st.sampled_from(sorted(TARGETS)),
    choice=st.integers(0, 47),
    seed=st.integers(0, 2**32),
)
def test_odd_names(data: st.DataObject, name: str, target: str, choice: int, seed: int) -> None:
    plain = WORKLOADS[name]()
    check(plain, data.draw(renamed(plain)), TARGETS[target], choice, seed)


@examples(25)
@given(
    data=st.data(),
    plain=st.sampled_from(sorted(WORKLOADS)).map(lambda name: WORKLOADS[name]()) | programs(),
    target=st.sampled_from(sorted(TARGETS)),
)
def test_names_change_nothing(data: st.DataObject, plain: ComputeDAG, target: str) -> None:
    """Neither keys, nor the order of sketches, nor the rows that are drawn, nor machine code."""
    odd = data.draw(renamed(plain))
    ours, theirs = (build_space([Variant("direct", d)], TARGETS[target]) for d in (plain, odd))
    assert [s.key for s in theirs.sketches] == [s.key for s in ours.sketches]
    for mine, its in zip(ours.samples, theirs.samples, strict=True):
        np.testing.assert_array_equal(mine.values, its.values)
    for mine, its in zip(ours.drafts, theirs.drafts, strict=True):
        np.testing.assert_array_equal(mine, its)
    first, second = (build_candidate(s.draft_candidate()) for s in (ours, theirs))
    assert first.object_code == second.object_code
    assert [a.shape for a in first.arguments] == [a.shape for a in second.arguments]


def build_candidate(candidate: Candidate) -> Kernel:
    return build(lower(candidate.sketch, dict(candidate.values)), candidate.sketch.target)


def test_keys_tell_steps_apart() -> None:
    """Names are left out of keys, and nothing else."""
    sketches = generate(WORKLOADS["conv2d_residual"](), TARGETS["host, two threads"])
    assert len({s.key for s in sketches}) == len(sketches)
    sketch = next(s for s in sketches if any(step.kind == "split" for step in s.steps))
    shorter = replace(sketch, steps=sketch.steps[:-1])
    assert shorter.key != sketch.key
    for number, step in enumerate(sketch.steps):
        if isinstance(step, Split) and isinstance(step.factors[-1], int):
            other = replace(step, factors=(*step.factors[:-1], step.factors[-1] * 2))
            steps = (*sketch.steps[:number], other, *sketch.steps[number + 1 :])
            assert replace(sketch, steps=steps).key != sketch.key


def test_two_axes_of_one_name() -> None:
    data, weight = placeholder((9, 20), name="data"), placeholder((20, 33), name="weight")

    def product(over: str) -> ComputeDAG:
        i = reduce_axis(20, over)
        body = lambda i_, j: reducers.sum(data[i_, i] * weight[i, j], axis=i)  # noqa: E731
        return ComputeDAG([compute((9, 33), body, name="out", axis_names=("i", "i"))])

    odd = product("i")
    assert [a.name for a in (*odd.stages[0].axes, *odd.stages[0].reduce_axes)] == [
        "i",
        "i#2",
        "i#3",
    ]
    for choice in range(3):
        check(product("k"), odd, TARGETS["host, two threads"], choice, 0)


@pytest.mark.parametrize("name", ["matmul", "conv2d_relu", "total_sum", "softmax"])
@settings(max_examples=4)
@given(data=st.data())
def test_on_a_gpu(name: str, data: st.DataObject) -> None:
    target, plain = cuda_target("sm_90"), WORKLOADS[name]()
    odd = data.draw(renamed(plain))
    ours, theirs = generate(plain, target), generate(odd, target)
    assert [s.key for s in theirs] == [s.key for s in ours]
    for sketch in theirs:
        verify(lower(sketch, sample(sketch, 1, np.random.default_rng(0)).row(0)))


def chained(producer: str, total: str) -> ComputeDAG:
    """A reduction that is cached, and a producer that a step's own stage could be confused with."""
    a, b = placeholder((24, 24), name="A"), placeholder((24, 24), name="B")
    k = reduce_axis(24)
    first = compute((24, 24), lambda i, j: unary("exp", a[i, j]), name=producer)
    body = compute((24, 24), lambda i, j: reducers.sum(first[i, k] * b[k, j], axis=k), name=total)
    return ComputeDAG([body])


@pytest.mark.parametrize("producer", ["C.local", "C.rf", "B.cache", "A.cache", "C.B.cache"])
def test_a_producer_called_like_a_generated_stage(producer: str) -> None:
    for choice in range(0, 12, 4):
        odd = chained(producer, "C")
        check(chained("P", "C"), odd, TARGETS["host, two threads"], choice, 0)


@pytest.mark.parametrize("axis", ["x_part", "x_chunk", "x"])
@pytest.mark.parametrize("stage", ["s", "s.rf", "s.local"])
def test_a_partial_reduction_under_any_name(stage: str, axis: str) -> None:
    target = TARGETS["host, two threads"]

    def total(stage: str, axis: str) -> ComputeDAG:
        data = placeholder((4096, 3), name="data")
        rows, columns = reduce_axis(4096, axis), reduce_axis(3, f"{axis}_part")
        body = reducers.sum(data[rows, columns], axis=(rows, columns))
        return ComputeDAG([compute((), lambda: body, name=stage)])

    assert any(step.kind == "rfactor" for step in generate(total("s", "x"), target)[0].steps)
    check(total("s", "x"), total(stage, axis), target, 0, 0)


def test_two_axes_whose_decisions_would_have_one_name() -> None:
    """Stage C with axis D.i, and stage C.D with axis i."""
    plain = WORKLOADS["transposed_add"]()
    names = names_of(plain)
    spellings = [("C", ("D.i", "j")), ("C.D", ("i", "D.j"))][: len(names.stages)]
    odd = with_names(plain, Names(names.inputs, tuple(spellings)))
    check(plain, odd, TARGETS["host, two threads"], 0, 0)


def test_names_that_cannot_be_kept_apart_are_refused() -> None:
    data = placeholder((4,), name="data")
    pair = compute((4,), lambda i: (data[i], data[i] + 1.0), name="pair")
    other = compute((4,), lambda i: data[i] * 2.0, name="pair.v1")
    with pytest.raises(ExpressionError, match=r"'pair\.v1' is what output 1 of stage pair"):
        ComputeDAG([*pair, other])
    with pytest.raises(ExpressionError, match="half of a surrogate pair"):
        placeholder((4,), name="\ud800")
    with pytest.raises(ExpressionError, match="cannot be called 3"):
        compute((4,), lambda i: data[i], name=3)  # type: ignore[arg-type]
