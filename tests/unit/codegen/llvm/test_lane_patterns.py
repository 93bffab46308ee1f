"""Lanes that read a known pattern: vectors in another order, never an element beside the buffer."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from codegen.build import emit
from codegen.host import cpu_target
from codegen.llvm.machine import emit_object
from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import Expr, select
from sketch.lang.functions import all_of
from sketch.lang.reducers import sum as total
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.lower import lower
from sketch.population.population import sample
from sketch.rules.generate import generate
from sketch.target.target import Target
from tests.support.compiled import check_run
from tests.support.cpu_targets import in_turns, runnable
from tests.support.workloads import random_inputs

Index = Callable[[Expr], Expr]

# By name: elements of the data and of the result, what result i reads.
PATTERNS: dict[str, tuple[int, int, Index]] = {
    "groups of four": (64, 64, lambda i: i // 4 * 4 + 2),
    "groups of eight": (48, 48, lambda i: i // 8 * 8),
    "the last of a group": (64, 64, lambda i: i // 4 * 4 + 3),
    "two inputs, four outputs": (32, 64, lambda i: i // 4 * 2 + 1),
    "no multiple of a vector": (37, 36, lambda i: i // 4 * 4 + 4),
    "ragged": (23, 23, lambda i: i // 4 * 4),
    "far apart": (200, 64, lambda i: i // 4 * 12 + 1),
    "turned": (64, 64, lambda i: i // 4 * 4 + 3 - i % 4),
    "groups of three": (48, 48, lambda i: i // 3 * 3 + 1),
    "in one group": (4, 64, lambda i: i // 32 + 1),
}  # fmt: skip


def patterned(name: str) -> ComputeDAG:
    size, count, index = PATTERNS[name]
    x = placeholder((3, size), name="x")
    return ComputeDAG([compute((3, count), lambda n, i: x[n, index(i)] + 1.0, name="y")])


def guarded_sum() -> ComputeDAG:
    """Rows outside of the data count as zero: the vector beside them is not read either."""
    x, w = placeholder((5, 32), name="x"), placeholder((3, 4, 32), name="w", constant=True)
    k, c = reduce_axis(3, "k"), reduce_axis(4, "c")

    def element(n: Expr, i: Expr) -> Expr:
        row = n + k - 1
        product = x[row, i // 4 * 4 + c] * w[k, c, i]
        return total(select(all_of(row >= 0, row < 5), product, 0.0), axis=(k, c))

    result: Tensor = compute((5, 32), element, name="y")
    return ComputeDAG([result])


def in_uneven_rows(size: int, count: int, shape: tuple[int, int]) -> ComputeDAG:
    """Rows that loops do not count regularly, or that the data says: all lanes of a vector read one
    of them.
    """
    x, rows = placeholder((7, size), name="x"), placeholder((9,), "int64", name="rows")

    def element(n: Expr, i: Expr) -> Expr:
        place = i // shape[0] * shape[1]
        return x[n // 2, place] + x[n * 3 % 7, place] * x[rows[n] % 7, place]

    return ComputeDAG([compute((9, count), element, name="y")])


PROGRAMS = {name: lambda name=name: patterned(name) for name in PATTERNS}
PROGRAMS["guarded sum"] = guarded_sum
PROGRAMS["every element twice"] = lambda: in_uneven_rows(24, 48, (2, 1))
PROGRAMS["twice, with a rest"] = lambda: in_uneven_rows(19, 37, (2, 1))
PROGRAMS["pairs of four, with a rest"] = lambda: in_uneven_rows(30, 29, (4, 4))
PROGRAMS["three times"] = lambda: in_uneven_rows(9, 27, (3, 1))


@pytest.mark.parametrize(("name", "target"), in_turns(sorted(PROGRAMS), runnable()))
def test_patterns_read_what_they_name(name: str, target: Target, rng: np.random.Generator) -> None:
    dag = PROGRAMS[name]()
    for seed in range(2):
        check_run(dag, random_inputs(dag, rng), target.with_threads(1), choice=seed, seed=seed)


@pytest.mark.parametrize("name", ["groups of four", "two inputs, four outputs", "turned"])
def test_vectors_are_loaded_and_turned(name: str, rng: np.random.Generator) -> None:
    """No element is loaded by itself."""
    target = runnable()[0]
    sketch = generate(patterned(name), target)[0]
    nest = lower(sketch, sample(sketch, 1, rng).row(0))
    text = str(emit(nest, target, "kernel"))
    assert "shufflevector" in text and "masked.gather" not in text


def test_rows_that_only_the_run_knows_do_not_take_vectors_apart(rng: np.random.Generator) -> None:
    target = runnable()[0]
    dag = in_uneven_rows(24, 48, (2, 1))
    for sketch in generate(dag, target):
        nest = lower(sketch, sample(sketch, 1, rng).row(0))
        assert "masked.gather" not in str(emit(nest, target, "kernel"))


@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
def test_narrow_elements_that_are_apart_are_loaded_one_by_one(
    dtype: str, rng: np.random.Generator
) -> None:
    """No processor gathers them: LLVM would take vectors of their addresses apart."""
    x = placeholder((3, 192), dtype, name="x")
    dag = ComputeDAG([compute((3, 64), lambda n, i: x[n, i * 3], name="y")])
    target = runnable()[0]
    sketch = generate(dag, target)[0]
    text = emit(lower(sketch, sample(sketch, 1, rng).row(0)), target, "f").text
    assert "insertelement" in text and "masked.gather" not in text
    check_run(dag, random_inputs(dag, rng), target.with_threads(1), choice=0, seed=0)


@pytest.mark.parametrize("times", [2, 3, 5])
def test_many_bytes_are_shuffled_as_wider_integers(times: int) -> None:
    """LLVM 22 does not come to an end with shuffles of 40 and more bytes for AVX-512."""
    x = placeholder((4, 64), "uint8", name="x")
    dag = ComputeDAG([compute((4, 192), lambda n, i: x[n, i // times % 64], name="y")])
    target = cpu_target("cpu-avx512", 1)
    rng = np.random.default_rng(times)
    sketch = generate(dag, target)[0]
    texts = []
    for row in range(20):
        nest = lower(sketch, sample(sketch, 20, rng).row(row))
        texts.append(emit(nest, target, "f").text)
        found = re.findall(r"shufflevector <(\d+) x i8> [^<]*<\d+ x i8> zeroinit", texts[-1])
        assert all(int(lanes) <= 32 for lanes in found)
    wide = [text for text in texts if "shufflevector <64 x i16>" in text]
    assert wide
    emit_object(wide[0], target)
