"""Every program has a schedule on every instruction set."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autosched.task import Task
from codegen.host import INSTRUCTION_SETS, cpu_target
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.operators.normalization import normalize
from sketch.operators.pooling import global_avg_pool
from sketch.population.feasible import feasible
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
