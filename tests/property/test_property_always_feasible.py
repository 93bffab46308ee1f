"""Any program of any extents has a schedule that fits, on any target; nothing is run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autosched as asd
from codegen.host import cpu_target
from sketch.lang.expr import Const, Reducer, Var
from sketch.lang.reducers import reduce
from sketch.population.feasible import feasible
from sketch.population.population import sample
from sketch.rules.backend import default_rules
from sketch.rules.compute_location import ComputeLocation
from sketch.rules.generate import at_root, generate
from sketch.target.gpu_targets import cuda_target
from tests.support.examples import examples
from tests.support.workloads import WORKLOADS

AVX512 = cpu_target("cpu-avx512", 2)
TARGETS = {
    "512 bits": AVX512,
    "8 lanes, 16 registers": replace(AVX512, vector_bytes=32, registers=16),
    "4 lanes, small caches": replace(AVX512, vector_bytes=16, registers=16, l2_bytes=16384),
    "GPU": cuda_target("sm_90"),
}
EXTENTS = st.one_of(st.integers(1, 9), st.integers(1, 5000), st.integers(1, 2**20))


def strided_sum(rows: int, depth: int, columns: int) -> asd.ComputeDAG:
    """A reduction that reads another one with a stride: what is attached needs a large buffer."""
    data = asd.placeholder((rows, depth, columns), name="data")
    r, a = asd.reduce_axis(depth, "r"), asd.reduce_axis(rows, "a")
    part = asd.compute((rows, columns), lambda i, w: asd.sum(data[i, r, w], axis=r), name="part")
    total = asd.compute(
        (columns,),
        lambda w: asd.sum(asd.select(a * 2 < rows, part[a * 2, w], 0.0), axis=a),
        name="total",
    )
    return asd.ComputeDAG([total])


def row_scaled(rows: int, depth: int, columns: int) -> asd.ComputeDAG:
    """Rows divided by their sum, then multiplied with a matrix."""
    data = asd.placeholder((rows, depth), name="data")
    weight = asd.placeholder((depth, columns), name="weight")
    k, r = asd.reduce_axis(depth, "k"), asd.reduce_axis(depth, "r")
    total = asd.compute((rows,), lambda i: asd.sum(data[i, r], axis=r), name="total")
    scaled = asd.compute((rows, depth), lambda i, j: data[i, j] / total[i], name="scaled")
    body = asd.compute(
        (rows, columns), lambda i, j: asd.sum(scaled[i, k] * weight[k, j], axis=k), name="out"
    )
    return asd.ComputeDAG([body])


PROGRAMS = {"strided sum": strided_sum, "row scaled": row_scaled}


@examples(30)
@given(
    program=st.sampled_from(sorted(PROGRAMS)),
    target=st.sampled_from(["512 bits", "8 lanes, 16 registers", "4 lanes, small caches"]),
    extents=st.tuples(EXTENTS, EXTENTS, EXTENTS).filter(lambda e: e[0] * e[1] * e[2] < 2**40),
)
def test_every_program_has_a_draft(
    program: str, target: str, extents: tuple[int, int, int]
) -> None:
    task = asd.Task(PROGRAMS[program](*extents), TARGETS[target])
    candidate = task.draft_candidate()
    assert feasible(candidate.sketch, candidate.values).all()


@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_the_root_fits(name: str, target: str, rng: np.random.Generator) -> None:
    sketch = at_root(WORKLOADS[name](), TARGETS[target])
    assert not sketch.program.attached
    rows = sample(sketch, 64, rng)
    assert feasible(sketch, rows.columns()).any()


def test_rules_that_attach_are_left_out_where_nothing_fits() -> None:
    target = TARGETS["512 bits"]
    dag = strided_sum(3000, 8, 4096)
    task = asd.Task(dag, target)
    assert not task.draft_candidate().sketch.program.named("part").attach
    rules = tuple(r for r in default_rules(target) if not isinstance(r, ComputeLocation))
    assert task.space.sketches[0].key in {s.key for s in generate(dag, target, rules)}


def test_a_reduction_of_more_results_than_registers() -> None:
    count = 20
    pairs = [(Var(f"l{n}", "float32"), Var(f"r{n}", "float32")) for n in range(count)]
    sums = Reducer(
        "sums",
        tuple(lhs for lhs, _ in pairs),
        tuple(rhs for _, rhs in pairs),
        tuple(lhs + rhs for lhs, rhs in pairs),
        tuple(Const(0.0, "float32") for _ in pairs),
    )
    data, k = asd.placeholder((64, 64), name="data"), asd.reduce_axis(64, "k")
    outputs = asd.compute(
        (64,),
        lambda i: reduce(sums, [data[k, i] * float(n) for n in range(count)], k),
        name="sums",
    )
    task = asd.Task(asd.ComputeDAG(list(outputs)), TARGETS["8 lanes, 16 registers"])
    assert task.draft_candidate()


def test_a_reduction_of_one_row_may_run_in_parallel() -> None:
    """Attached at a loop of one trip it has one thread."""
    sketches = generate(asd.workloads.get("NRM").dag(1, 1024, 1024), AVX512)
    assert any(s.program.attached and not s.decisions for s in sketches)
    assert any(sum(p.attach is None for p in s.program.stages) > 1 for s in sketches)
