"""A task as a module: constants bound, inputs in, outputs out."""

from __future__ import annotations

import numpy as np
import pytest

import autosched as asd
from autosched.workloads import get
from sketch.oracle.interpret import interpret


@pytest.fixture(scope="module")
def task():
    a = asd.placeholder((7, 12), name="A")
    b = asd.placeholder((12, 40), name="B", constant=True)
    k = asd.reduce_axis(12)
    c = asd.compute((7, 40), lambda i, j: asd.sum(a[i, k] * b[k, j], axis=k), name="C")
    return asd.Task(asd.ComputeDAG([c]), asd.Target("cpu", threads=1))


def test_it_computes_the_program(task):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((7, 12), dtype=np.float32)
    b = rng.standard_normal((12, 40), dtype=np.float32)
    module = task.module({"B": b})
    assert [spec.name for spec in module.inputs] == ["A"]
    np.testing.assert_allclose(module.run({"A": a})["C"], a @ b, rtol=1e-4, atol=1e-5)
    assert module.program.steps[0].info.schedule == "model"


def test_it_survives_saving(task, tmp_path):
    b = np.eye(12, 40, dtype=np.float32)
    task.module({"B": b}).save(tmp_path / "product.asd")
    a = np.arange(84, dtype=np.float32).reshape(7, 12)
    np.testing.assert_array_equal(asd.load(tmp_path / "product.asd").run({"A": a})["C"], a @ b)


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({}, "'B'"),
        ({"B": np.zeros((12, 40), np.float32), "Z": np.zeros(1, np.float32)}, "'Z'"),
        ({"B": np.zeros((40, 12), np.float32)}, r"expected float32\[12, 40\]"),
        ({"B": np.zeros((12, 40))}, "float64"),
        ({"B": np.where(np.eye(12, 40), np.nan, 1).astype(np.float32)}, "NaN"),
    ],
)
def test_wrong_constants_are_refused(task, constants, message):
    with pytest.raises(asd.AutoschedError, match=message):
        task.module(constants)


def test_stages_that_share_a_buffer_are_one_output(rng: np.random.Generator) -> None:
    """Four stages compute the phases of this transposed convolution."""
    task = get("T2D").task(1, 3, 4, 5, 6, 3, 2, 1, 1, threads=1)
    assert len(task.dag.outputs) == 4
    data = rng.standard_normal((1, 3, 4, 5), dtype=np.float32)
    weight = rng.standard_normal((3, 3, 5, 6), dtype=np.float32)
    got = task.module({"weight": weight}).run({"data": data})["t2d"]
    wanted = interpret(task.dag, {"data": data, "weight": weight})["t2d"]
    assert got.shape == (1, 6, 8, 6)
    np.testing.assert_allclose(got, wanted, atol=1e-5)
