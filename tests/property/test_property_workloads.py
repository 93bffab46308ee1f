"""Every built-in workload at small sizes: any sketch and any row equal the oracle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autosched.workloads import WORKLOADS, get
from codegen.host import host_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.lower import lower
from sketch.operators.transposed import conv_transpose
from sketch.oracle.expected import relative_error
from sketch.oracle.interpret import interpret
from sketch.population.population import mutate, sample
from sketch.rules.generate import generate
from sketch.target.gpu_targets import cuda_target
from sketch.verify import verify
from tests.property.test_property_schedules import TARGETS, check, run_compiled
from tests.support.examples import examples, half
from tests.support.odd_names import renamed
from tests.support.small_workloads import SMALL
from tests.support.workloads import random_inputs

NARROW = replace(host_target(2), vector_bytes=16, registers=16, fma_accumulators=4)
NAMES = [workload.name for workload in WORKLOADS]
ROWS, SKETCHES = 2, 12  # at most so many sketches of one workload


@pytest.mark.parametrize("row", half(range(2)))
@pytest.mark.parametrize("name", NAMES)
def test_every_sketch(name: str, row: int) -> None:
    rng = np.random.default_rng(row)
    dag = get(name).dag(*SMALL[name])
    inputs = random_inputs(dag, rng)
    expected = interpret(dag, inputs)
    sketches = generate(dag, NARROW)
    step = -(-len(sketches) // SKETCHES)
    for sketch in sketches[row % step :: step]:
        values = mutate(sample(sketch, 1, rng), rng).row(0)
        outputs = run_compiled(sketch, values, inputs, NARROW)
        for key, value in expected.items():
            got = outputs[key].reshape(np.shape(value))
            assert relative_error(got, value) < 1e-5, (sketch, values)


@pytest.mark.parametrize("name", NAMES)
def test_gpu_nests_are_valid(name: str, rng: np.random.Generator) -> None:
    target = cuda_target("sm_90")
    for sketch in generate(get(name).dag(*SMALL[name]), target):
        population = sample(sketch, ROWS, rng)
        for index in range(population.count):
            verify(lower(sketch, population.row(index)))


@examples(16)
@given(
    extents=st.lists(st.integers(1, 5), min_size=1, max_size=2),
    kernel=st.integers(1, 4),
    stride=st.integers(1, 3),
    dilation=st.integers(1, 2),
    padding=st.integers(0, 2),
    extra=st.integers(0, 1),
    channels=st.sampled_from([1, 3, 8]),
    outputs=st.sampled_from([1, 5, 17, 32]),
    target=st.sampled_from(sorted(TARGETS)),
    choice=st.integers(0, 47),
    seed=st.integers(0, 2**32),
    names=st.data(),
)
def test_transposed_convolutions_of_any_shape(
    extents: list[int],
    kernel: int,
    stride: int,
    dilation: int,
    padding: int,
    extra: int,
    channels: int,
    outputs: int,
    target: str,
    choice: int,
    seed: int,
    names: st.DataObject,
) -> None:
    smallest = min(extents)
    if (smallest - 1) * stride + (kernel - 1) * dilation + 1 + extra <= 2 * padding:
        return
    data = placeholder((1, *extents, channels), name="data")
    shape = (*(kernel for _ in extents), channels, outputs)
    weight = placeholder(shape, name="weight", constant=True)
    parts = conv_transpose(data, weight, stride, padding, dilation, 1, extra)
    check(names.draw(renamed(ComputeDAG(parts))), TARGETS[target], choice, seed)
