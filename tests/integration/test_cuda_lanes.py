"""Reductions across the threads of a block equal the oracle, however the lanes are laid out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from autosched.workloads import get
from codegen.cuda.build import emit
from codegen.cuda.kernel import CudaSource
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.lower import lower
from sketch.operators.normalization import normalize
from sketch.oracle.interpret import interpret
from sketch.rules.generate import generate
from tests.support.cuda_programs import GPU
from tests.support.emulate import COMPILER, Program, compile_programs
from tests.support.workloads import (
    argmax_dag,
    global_average_pool,
    matmul_dag,
    random_inputs,
    row_sum,
    softmax_dag,
    total_sum,
)

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler to run CUDA text with")

CASES: Mapping[str, Callable[[], ComputeDAG]] = {
    "softmax": softmax_dag,
    "layer_norm": lambda: ComputeDAG([normalize(placeholder((7, 130), name="data"), (1,), 1e-5)]),
    "argmax": argmax_dag,
    "total_sum": total_sum,
    "row_sum": row_sum,
    "global_average_pool": global_average_pool,
    "NRM": lambda: get("NRM").dag(2, 9, 50),
    "vector times matrix": lambda: matmul_dag(1, 40, 36),
}
# (lanes of a point, elements of a lane at a time, other decisions): shuffles within a warp and
# among warps, trees in shared memory, lanes that are no power of two, lanes beyond the end.
LAYOUTS = ((1, 1, 4), (8, 2, 4), (32, 1, 1), (64, 4, 2), (128, 1, 1), (5, 1, 3), (16, 4, 2))

Made = Mapping[str, tuple[ComputeDAG, list[Program]]]


def sources_of(dag: ComputeDAG) -> list[CudaSource]:
    """The one sketch of a program in every layout."""
    (sketch,) = generate(dag, GPU)
    lane_axis = next(
        factors
        for plan in sketch.program.stages
        for axis, factors in plan.splits.items()
        if plan.op.all_axes[axis].kind == "reduce"
    )
    found = []
    for lanes, elements, others in LAYOUTS:
        row = dict.fromkeys((decision.id for decision in sketch.decisions), others)
        row |= dict(zip(lane_axis, (lanes, elements), strict=True))
        found.append(emit(lower(sketch, row), GPU))
    return found


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Every case in every layout, compiled as one library."""
    dags = {name: make() for name, make in CASES.items()}
    sources = {name: sources_of(dag) for name, dag in dags.items()}
    every = [source for found in sources.values() for source in found]
    made = iter(compile_programs(every, tmp_path_factory.mktemp("lanes")))
    return {name: (dag, [next(made) for _ in LAYOUTS]) for name, dag in dags.items()}


@pytest.mark.parametrize("name", sorted(CASES))
def test_sums_over_lanes_equal_the_oracle_in_one_launch(
    name: str, programs: Made, rng: np.random.Generator
) -> None:
    dag, made = programs[name]
    inputs = random_inputs(dag, rng)
    expected = interpret(dag, inputs)
    for program in made:
        assert len(program.source.launches) == 1
        forward, backward = program.run(inputs), program.run(inputs, reverse=True)
        for key, value in forward.items():
            assert np.array_equal(value, backward[key]), f"{key} depends on the order of threads"
            wanted = np.asarray(expected[key]).reshape(value.shape)
            np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=2e-5)


def test_lanes_exchange_values_as_their_layout_allows(programs: Made) -> None:
    texts = [program.source.text for program in programs["softmax"][1]]
    assert "__shfl" not in texts[0] and "__syncthreads" not in texts[0]  # one lane: nothing to do
    within_a_warp, among_warps, no_power_of_two = texts[2], texts[3], texts[5]
    assert "__shfl_xor_sync" in within_a_warp and "__syncthreads" not in within_a_warp
    assert "__shfl_xor_sync" in among_warps and "__syncthreads" in among_warps
    assert "__shfl" not in no_power_of_two and "__syncthreads" in no_power_of_two


def test_neighbouring_threads_read_neighbouring_elements(programs: Made) -> None:
    rows, channels = (
        programs[name][1][6].source.text for name in ("row_sum", "global_average_pool")
    )
    assert "lane = thread % 16" in rows  # elements of a row follow each other
    assert "lane = thread / " in channels  # channels do, not the pixels that are added up
