"""Lanes a few elements apart: loaded with their neighbours, never an element beside the buffer."""

from __future__ import annotations

import re

import numpy as np
import pytest

from codegen.build import emit
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import Axis, Expr, select
from sketch.lang.functions import all_of
from sketch.lang.tensor import Tensor, compute, placeholder
from sketch.lower import lower
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.target.target import Target
from tests.support.compiled import check_run
from tests.support.cpu_targets import in_turns, runnable
from tests.support.workloads import random_inputs

# Elements from lane to lane, results of a row, the first element.
STRIDES = [(2, 64, 0), (2, 37, 1), (3, 16, 2), (4, 21, 0), (5, 6, 1), (8, 48, 7), (8, 5, 0)]
FAR = (9, 40, 3)


def strided(apart: int, count: int, first: int, dtype: str = "float32") -> ComputeDAG:
    """The last result reads the last element."""
    x = placeholder((3, (count - 1) * apart + first + 1), dtype, name="x")
    two = 2 if dtype.startswith("int") else 2.0
    return ComputeDAG([compute((3, count), lambda n, i: x[n, i * apart + first] * two, name="y")])


def padded(apart: int, count: int) -> ComputeDAG:
    """Some of the lanes are outside of the data, and whole rows are."""
    x = placeholder((4, apart * count - 3), name="x")

    def element(n: Axis, i: Axis) -> Expr:
        row, column = n - 1, i * apart - 1
        inside = all_of(row >= 0, row < 4, column >= 0, column < x.shape[1])
        return select(inside, x[row, column], 0.0) + 1.0

    result: Tensor = compute((6, count), element, name="y")
    return ComputeDAG([result])


PROGRAMS = {f"{a} apart, {n} from {first}": (a, n, first) for a, n, first in (*STRIDES, FAR)}


@pytest.mark.parametrize(("name", "target"), in_turns(sorted(PROGRAMS), runnable()))
def test_strides_read_what_they_name(name: str, target: Target, rng: np.random.Generator) -> None:
    dag = strided(*PROGRAMS[name])
    for seed in range(2):
        check_run(dag, random_inputs(dag, rng), target.with_threads(1), choice=seed, seed=seed)


def backwards(count: int, dtype: str) -> ComputeDAG:
    x = placeholder((3, count), dtype, name="x")
    return ComputeDAG([compute((3, count), lambda n, i: x[n, count - 1 - i] + x[n, i], name="y")])


@pytest.mark.parametrize("count", [16, 37, 64, 5])
@pytest.mark.parametrize("dtype", ["float32", "int64", "float16", "int8"])
def test_lanes_that_go_backwards(count: int, dtype: str, rng: np.random.Generator) -> None:
    dag = backwards(count, dtype)
    for seed, target in enumerate(runnable()):
        check_run(dag, random_inputs(dag, rng), target.with_threads(1), choice=seed, seed=seed)


def test_lanes_that_go_backwards_are_no_gather(rng: np.random.Generator) -> None:
    text = text_of(backwards(64, "float32"), rng)
    assert "i32 1, i32 0>" in text and "masked.gather" not in text


def test_known_masks_of_lanes_that_go_backwards_stay_known(rng: np.random.Generator) -> None:
    """Else parts of a load without any lane would be read."""
    text = text_of(backwards(37, "float32"), rng)
    assert "<i1 false, " in text and re.search(r"shufflevector <\d+ x i1>", text) is None


@pytest.mark.parametrize("dtype", ["float64", "int64", "float16", "int8"])
def test_elements_of_other_sizes(dtype: str, rng: np.random.Generator) -> None:
    dag = strided(3, 37, 1, dtype)
    check_run(dag, random_inputs(dag, rng), runnable()[0].with_threads(1), choice=0, seed=0)


@pytest.mark.parametrize(("apart", "count"), [(2, 33), (3, 40), (7, 19)])
def test_padding(apart: int, count: int, rng: np.random.Generator) -> None:
    dag = padded(apart, count)
    for target in runnable():
        check_run(dag, random_inputs(dag, rng), target.with_threads(1), choice=0, seed=0)


def text_of(dag: ComputeDAG, rng: np.random.Generator) -> str:
    target = runnable()[0]
    sketch = generate(dag, target)[0]
    return str(emit(lower(sketch, sample(sketch, 1, rng).row(0)), target, "kernel"))


def test_only_lanes_far_apart_are_gathered(rng: np.random.Generator) -> None:
    near = text_of(strided(2, 64, 0), rng)
    assert "shufflevector" in near and "masked.gather" not in near
    assert "masked.gather" in text_of(strided(*FAR), rng)
