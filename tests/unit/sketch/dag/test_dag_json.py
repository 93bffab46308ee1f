"""Programs as JSON values: equal again, and never something else."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from autosched.workloads.builtin import WORKLOADS
from sketch.dag.dag import ComputeDAG
from sketch.dag.dag_json import dag_from_json, dag_to_json
from sketch.errors import AutoschedError, ExpressionError
from sketch.lang import reducers
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.operators.conv import conv2d, grouped_conv
from sketch.operators.matmul import matmul
from sketch.variants.derive import ALGORITHMS, variants_of
from tests.support.small_workloads import SMALL
from tests.support.workloads import conv2d_relu


def again(dag: ComputeDAG) -> ComputeDAG:
    return dag_from_json(json.loads(json.dumps(dag_to_json(dag), allow_nan=False)))


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w.name)
def test_programs_are_equal_again(workload: Any) -> None:
    dag = workload.dag(*SMALL[workload.name])
    found = again(dag)
    assert found.key == dag.key
    assert str(found) == str(dag)
    assert dag_to_json(found) == dag_to_json(dag)


def test_several_outputs_and_their_reducers_are_equal_again() -> None:
    data = placeholder((5, 7), name="data")
    k = reduce_axis(7, "k")
    place, value = compute(5, lambda i: reducers.argmax(k, data[i, k], k), name="largest")
    dag = ComputeDAG([place, value])
    assert again(dag).key == dag.key


@pytest.mark.parametrize("variant", ["winograd-4", "joined-columns", "joined-groups", "strassen"])
def test_constants_in_another_form_are_equal_again(variant: str) -> None:
    """Of every kind."""
    weight = placeholder((3, 3, 16, 16), name="w", constant=True)
    data = placeholder((1, 6, 12, 16), name="x")
    groups = placeholder((4, 3, 3, 4, 4), name="w", constant=True)
    few = placeholder((3, 3, 16, 2), name="w", constant=True)
    rows, columns = placeholder((128, 256), name="x"), placeholder((256, 256), "float32", "w", True)
    results = {
        "winograd-4": lambda: conv2d(data, weight, padding=1),
        "joined-columns": lambda: conv2d(data, few, padding=1),
        "joined-groups": lambda: grouped_conv(data, groups, 1, 1, groups=4),
        "strassen": lambda: matmul(rows, columns),
    }
    dag = variants_of(ComputeDAG([results[variant]()]), ALGORITHMS)[variant]
    found = again(dag)
    assert found.key == dag.key and str(found) == str(dag)
    made = [(a.op.prepared, b.op.prepared) for a, b in zip(dag.inputs, found.inputs, strict=True)]
    assert all(one == other for one, other in made) and any(one for one, _ in made)


def test_shared_expressions_are_written_once() -> None:
    data = placeholder(8, name="data")

    def body(i: Any) -> Any:
        value = data[i]
        for _ in range(12):
            value = value + value
        return value

    dag = ComputeDAG([compute(8, body, name="out")])
    assert len(dag_to_json(dag)["stages"][0]["nodes"]) == 14
    assert again(dag).flops == dag.flops


def test_what_is_no_program_is_an_error() -> None:
    data = dag_to_json(conv2d_relu())
    for path in (
        ("inputs",),
        ("stages",),
        ("outputs",),
        ("stages", 0, "nodes"),
        ("inputs", 0, "shape"),
    ):
        damaged = copy.deepcopy(data)
        place: Any = damaged
        for part in path[:-1]:
            place = place[part]
        del place[path[-1]]
        with pytest.raises(AutoschedError):
            dag_from_json(damaged)
    for wrong in (None, [], 3, {"inputs": 1}, {**data, "outputs": [[99, 0]]}):
        with pytest.raises(ExpressionError):
            dag_from_json(wrong)
