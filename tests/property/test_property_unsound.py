"""Schedules as faulty rules make them: refused with one of our errors, or right.

Kernels run between guard pages, so that what is accepted touches no foreign memory either.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from codegen.build import build
from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.errors import AutoschedError
from sketch.lower import lower
from sketch.oracle.expected import relative_error
from sketch.oracle.interpret import interpret
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from tests.support.compiled import packed_inputs
from tests.support.examples import examples
from tests.support.guard_pages import run_guarded
from tests.support.step_mutations import mutate_steps
from tests.support.workloads import WORKLOADS, random_inputs

TARGET = replace(host_target(2), vector_bytes=16, registers=16, fma_accumulators=4)
NAMES = sorted(name for name, make in WORKLOADS.items() if make().flops < 3e5)
Arrays = dict[str, np.ndarray]


@cache
def workload(name: str) -> tuple[ComputeDAG, tuple[Sketch, ...], Arrays, Arrays]:
    dag = WORKLOADS[name]()
    inputs = random_inputs(dag, np.random.default_rng(0))
    return dag, generate(dag, TARGET), inputs, dict(interpret(dag, inputs))


def outcome(name: str, seed: int) -> str:
    """ "refused" or "right"; anything else is an exception."""
    _, sketches, inputs, expected = workload(name)
    rng = random.Random(seed)
    sketch = mutate_steps(rng.choice(sketches), rng)
    try:
        population = sample(sketch, 1, np.random.default_rng(seed))
        if not population.count:
            return "refused"
        row = population.row(0)
        kernel = build(lower(sketch, row), TARGET)
    except AutoschedError as error:
        assert error.what, "an error says what is wrong"
        return "refused"
    outputs = run_guarded(kernel, packed_inputs(sketch, row, inputs))
    for key, value in expected.items():
        error = relative_error(outputs[key].reshape(np.shape(value)), value)
        assert error < 1e-5, (key, sketch.steps, row)
    return "right"


@examples(60)
@example("argmax", 8649199)  # vectors whose lanes a decision says
@given(st.sampled_from(NAMES), st.integers(0, 2**32))
def test_what_is_accepted_is_right(name: str, seed: int) -> None:
    outcome(name, seed)


@pytest.mark.slow
@settings(max_examples=1000)
@given(st.sampled_from(NAMES), st.integers(0, 2**32))
def test_much_of_what_is_accepted_is_right(name: str, seed: int) -> None:
    outcome(name, seed)


def test_both_outcomes_occur() -> None:
    assert {outcome("dense_relu", seed) for seed in range(16)} == {"refused", "right"}
