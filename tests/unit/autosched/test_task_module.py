"""A task as a module: constants bound, inputs in, outputs out."""

from __future__ import annotations

import numpy as np
import pytest

import autosched as asd


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
        ({"B": np.full((12, 40), np.nan, np.float32)}, "NaN"),
    ],
)
def test_wrong_constants_are_refused(task, constants, message):
    with pytest.raises(asd.AutoschedError, match=message):
        task.module(constants)
