"""Block code gives what a replay by NumPy gives, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from costmodel.extract import draft_seconds, extract, features_of
from costmodel.extract.analysis import highest
from costmodel.extract.block_machine import LANES
from costmodel.extract.block_writer import block_code
from costmodel.extract.quantity import (
    count_true,
    gather,
    maximum,
    minimum,
    power_of_two,
    stack,
    where,
)
from costmodel.extract.recorded import _recorded, draft_code, feature_code
from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import placeholder
from sketch.lower import lower
from sketch.operators.conv import conv2d
from sketch.operators.normalization import normalize
from sketch.population.population import Population, sample
from sketch.population.tape import record
from sketch.rules.generate import generate
from sketch.schedule.sketch import Sketch
from sketch.variants.derive import ALGORITHMS, variants_of
from tests.support.targets import AVX512, SMALL
from tests.support.workloads import matmul_dag

Inputs = Sequence[Any]
Function = Callable[[Inputs], list[Any]]

_ODD = [0, 1, -1, 2, 3, -3, 7, 2**31, -(2**40), 2**53 + 1, 2**63 - 1, -(2**63)]


def _conv(size: int, channels: int) -> ComputeDAG:
    data = placeholder((1, size, size, channels), name="data")
    weight = placeholder((3, 3, channels, channels), name="weight", constant=True)
    return ComputeDAG([conv2d(data, weight, padding=1)])


def _columns(count: int) -> NDArray[np.int64]:
    """Pairs of odd numbers, as many as fit, and small ones."""
    rng = np.random.default_rng(0)
    pairs = np.array([(a, b) for a in _ODD for b in _ODD])
    small = rng.integers(1, 9, (count, 2))
    return np.concatenate([pairs, small])[:count].T


def _check(function: Function, dtype: type, count: int = 200) -> None:
    tape, columns = record(function, 3), _columns(count)
    code = block_code(tape, range(len(tape.results)), dtype)
    assert code is not None
    found = np.zeros((len(tape.results), count), dtype)
    with np.errstate(all="ignore"):
        code.run(columns, found)
        replayed = tape.replay([np.arange(count), *columns])
        expected = np.array([np.asarray(values).astype(dtype) for values in replayed])
    np.testing.assert_array_equal(found, expected)
    number = ~np.isnan(expected)
    assert (np.signbit(found) == np.signbit(expected))[number].all()


def _integers(inputs: Inputs) -> list[Any]:
    _, a, b = inputs
    sums = [a + b, a - b, 3 - a, a * b, a * -7, -a, a // b, -(-a // b), a // 5, -9 // b]
    orders = [a > b, a >= b, a < b, a <= 2, a == b, (a > b) & (b > 2), (a > b) | (a == 7)]
    return [*sums, *orders, a & b, a | 6, minimum(a, b), maximum(a, 3), (a > b) & True]


def _reals(inputs: Inputs) -> list[Any]:
    _, a, b = inputs
    x, y = a / b, a.astype(np.float64) * 1e-3
    sums = [x + y, x - y, x * y, x / y, -x, 0.5 - x, x * 1e308, y / 0.0, a * 0.5, x + b]
    orders = [x > y, x >= y, x < y, x <= a, x == x, minimum(x, y), maximum(x, y), maximum(x, 1.0)]
    whole = (b & 0xFFFF).astype(np.float64)
    powers = [power_of_two(whole, 4096.0), power_of_two(whole, where(a > b, 64.0, 16.0))]
    chosen = [
        *powers,
        np.where(x > y, x, y),
        np.where(a == b, 1.0, y),
        np.where(a > b, a, b),
        np.ceil(y),
    ]
    return [*sums, *orders, *chosen, (x > y).astype(np.float64), (x > y) * y, np.log2(b * 1.0 / a)]


def _levels(inputs: Inputs) -> list[Any]:
    programs, a, b = inputs
    x = (b & 7).astype(np.float64)
    levels = stack(programs, x, 2.0, a & 3, x * x, 1.0 / x)
    flags = levels > 2.0
    index = minimum(count_true(flags[1:]) + 0, 3)
    scaled = levels * np.array([[0.5], [1.0], [2.0], [3.0], [4.0]])
    shares = np.array([[0.25], [0.5]]) * levels[3]
    places = count_true(scaled[1:, None] >= shares)
    found = gather(levels, places, programs) - shares
    none = count_true((scaled[1:, None] >= shares)[:0])
    ranks = [highest(flags, ranks, programs) for ranks in ((0, 2, 0, 1, 3), (0,) * 5)]
    reals = [gather(levels, index, programs), levels[4], found[0], found[1]]
    return [index, *ranks, *reals, none[0], none[1] + b, a]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", [_integers, _reals, _levels])
def test_every_operation_is_numpys_at_the_ends_of_its_types(
    function: Function, dtype: type
) -> None:
    _check(function, dtype)


@pytest.mark.parametrize("count", [0, 1, LANES - 1, LANES, LANES + 1, 2 * LANES - 1, 5 * LANES])
def test_the_last_block_need_not_be_full(count: int) -> None:
    _check(lambda inputs: [inputs[1] - inputs[2], 1.0 / inputs[2] + inputs[2]], np.float64, count)


def test_features_and_drafts_are_those_of_a_replay(populations: list[Population]) -> None:
    rng = np.random.default_rng(1)
    for sketch in {id(p.sketch): p.sketch for p in populations}.values():
        population = sample(sketch, 150, rng)
        assert feature_code(sketch) is not None
        assert draft_code(sketch) is not None
        nest = lower(sketch, population.columns())
        plain = extract(nest, population.count, sketch.dag, sketch.target)
        np.testing.assert_array_equal(features_of(population).values, plain.values)
        np.testing.assert_allclose(
            draft_seconds(population), draft_seconds(population, once=True), rtol=1e-12
        )


@pytest.mark.parametrize(
    "function",
    [
        lambda inputs: [np.sort(inputs[1])],
        lambda inputs: [inputs[1][::-1]],
        lambda inputs: [inputs[0] + inputs[1]],
        lambda inputs: [inputs[1] % 3],
        lambda inputs: [(inputs[1] > 1) + (inputs[2] > 1)],
        lambda inputs: [inputs[1] + 2**80],
        lambda inputs: [inputs[1].astype(np.float32)],
        lambda inputs: [inputs[1][None]],
    ],
)
def test_what_has_no_block_code_is_left_to_numpy(function: Function) -> None:
    assert block_code(record(function, 3), [0], np.float32) is None


@pytest.mark.parametrize("dag", [_conv(12, 16), _conv(14, 1024), matmul_dag(96, 96, 96)])
def test_features_of_all_variants_have_block_code(dag: ComputeDAG) -> None:
    for variant in (dag, *variants_of(dag, ALGORITHMS).values()):
        for sketch in generate(variant, AVX512):
            assert feature_code(sketch) is not None, (sketch.variant, sketch.key)


def test_rows_that_are_no_results_of_few_programs_stay_as_they_are() -> None:
    code = block_code(record(lambda inputs: [inputs[1] + inputs[2]], 3), [1], np.float32)
    out = np.full((3, 2), 7.0, np.float32)
    assert code is not None
    code.run(np.array([[1, 2], [3, 4]]), out)
    np.testing.assert_array_equal(out, [[7, 7], [4, 6], [7, 7]])


def test_few_programs_have_the_features_that_they_have_among_many() -> None:
    _agree(generate(matmul_dag(64, 64, 64), SMALL)[0])


def test_a_normalisation_of_one_row_has_stages_without_loops() -> None:
    data = placeholder((1, 64), "float32", "data")
    _agree(generate(ComputeDAG([normalize(data, (1,), 1e-5)]), SMALL)[0])


def _agree(sketch: Sketch) -> None:
    many = sample(sketch, LANES, np.random.default_rng(2))
    few = Population(sketch, many.values[:3])
    for made_by in (feature_code(sketch), _recorded(sketch)):
        assert made_by is not None
        np.testing.assert_array_equal(
            made_by.features(few).values, made_by.features(many).values[:, :, :3]
        )
