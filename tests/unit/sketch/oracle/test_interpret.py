"""The oracle: both paths, regions, selects, tuple reducers, references."""

import math
import pickle
import tracemalloc

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.errors import ExpressionError
from sketch.lang import reducers
from sketch.lang.expr import Const, Reducer, Var, cast, select, unary
from sketch.lang.functions import equal, maximum, minimum
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.operators import reduction
from sketch.operators.conv import conv2d
from sketch.operators.matmul import matmul
from sketch.oracle import stage_values
from sketch.oracle.expected import Reference, Samples
from sketch.oracle.interpret import interpret
from sketch.oracle.reference import reference
from sketch.oracle.sampled import Sampling, sample_points, sample_reference
from tests.support.workloads import WORKLOADS, argmax_dag, conv2d_relu, matmul_dag, random_inputs


def one(dag, inputs, **options):
    (value,) = interpret(dag, inputs, **options).values()
    return value


def assert_same(got, wanted):
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", WORKLOADS)
def test_fast_and_general_path_agree(name, rng):
    dag = WORKLOADS[name]()
    inputs = random_inputs(dag, rng)
    assert_same(interpret(dag, inputs), interpret(dag, inputs, fast=False))


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("fast", [True, False])
def test_small_chunks_change_nothing(name, fast, rng, monkeypatch):
    dag = WORKLOADS[name]()
    inputs = random_inputs(dag, rng)
    whole = interpret(dag, inputs, fast=fast)
    monkeypatch.setattr(stage_values, "GENERAL_ELEMENTS", 100)
    monkeypatch.setattr(stage_values, "CONTRACTION_ELEMENTS", 500)
    assert_same(interpret(dag, inputs, fast=fast), whole)


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "concat"])
@pytest.mark.parametrize("fast", [True, False])
def test_region_is_a_part_of_the_whole(name, fast, rng):
    dag = WORKLOADS[name]()
    inputs = random_inputs(dag, rng)
    tensor = dag.outputs[0]
    region = tuple(slice(n // 3, max(n // 3 + 1, 2 * n // 3)) for n in tensor.shape)
    part = interpret(dag, inputs, {tensor.name: region}, fast)[tensor.name]
    whole = interpret(dag, inputs)[tensor.name][region]
    np.testing.assert_allclose(part, whole, rtol=1e-12, atol=1e-12)


def test_region_of_a_stage_that_writes_a_shared_buffer(rng):
    dag = WORKLOADS["concat"]()
    inputs = random_inputs(dag, rng)
    result = interpret(dag, inputs, {"concat.1": (slice(1, 3), slice(2, 5))})
    assert result.keys() == {"concat.1"}
    assert np.array_equal(result["concat.1"], inputs["part8"][1:3, 2:5])


def test_bad_regions_and_inputs_are_refused(rng):
    dag = matmul_dag(4, 4, 4)
    inputs = random_inputs(dag, rng)
    for region, message in [
        ({"absent": (slice(1),)}, "no output"),
        ({"C": (slice(1),)}, "1 slices"),
        ({"C": (slice(2, 2), slice(1))}, "empty"),
    ]:
        with pytest.raises(ExpressionError, match=message):
            interpret(dag, inputs, region)
    with pytest.raises(ExpressionError, match="missing"):
        interpret(dag, {"A": inputs["A"]})
    with pytest.raises(ExpressionError, match="has shape"):
        interpret(dag, {**inputs, "B": np.zeros((4, 5))})


def test_floats_are_computed_in_float64(rng):
    dag = matmul_dag(8, 8, 300)
    inputs = random_inputs(dag, rng)
    exact = inputs["A"].astype(np.float64) @ inputs["B"].astype(np.float64)
    np.testing.assert_allclose(one(dag, inputs), exact, rtol=1e-13)


def test_integers_are_exact(rng):
    a, b = placeholder((6, 7), "int64", "a"), placeholder((7, 5), "int64", "b")
    dag = ComputeDAG([matmul(a, b)])
    inputs = {t.name: rng.integers(-(2**28), 2**28, t.shape) for t in dag.inputs}
    result = one(dag, inputs)
    assert result.dtype == np.int64 and np.array_equal(result, inputs["a"] @ inputs["b"])


def test_division_and_remainder_round_down():
    a = placeholder((6,), "int32", "a")
    quotient, rest = compute((6,), lambda i: (a[i] // 3, a[i] % 3), name="q")
    values = np.array([-4, -3, -1, 0, 2, 7], dtype=np.int32)
    result = interpret(ComputeDAG([quotient, rest]), {"a": values})
    assert np.array_equal(result["q.v0"], values // 3) and result["q.v0"].dtype == np.int32
    assert np.array_equal(result["q.v1"], values % 3)


def test_casts_and_booleans():
    a = placeholder((4,), name="a")
    stage = compute(
        (4,), lambda i: (cast(a[i], "int32"), a[i] > 0.5, cast(a[i] > 0.5, "float32")), name="s"
    )
    result = interpret(ComputeDAG(stage), {"a": np.array([-1.7, 0.2, 0.9, 2.5], dtype="f4")})
    assert result["s.v0"].tolist() == [-1, 0, 0, 2]
    assert result["s.v1"].tolist() == [False, False, True, True]
    assert result["s.v2"].tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("exp", np.exp), ("log", np.log), ("sqrt", np.sqrt), ("tanh", np.tanh),
        ("floor", np.floor), ("ceil", np.ceil), ("abs", np.abs), ("neg", np.negative),
        ("rsqrt", lambda x: 1 / np.sqrt(x)), ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
        ("erf", np.vectorize(math.erf)),
    ],
)  # fmt: skip
def test_elementary_functions(name, function, rng):
    a = placeholder((50,), name="a")
    dag = ComputeDAG([compute((50,), lambda i: unary(name, a[i]), name="s")])
    values = rng.random(50) + 0.1
    np.testing.assert_allclose(one(dag, {"a": values}), function(values), rtol=1e-15)


def test_select_does_not_read_out_of_bounds():
    a = placeholder((4,), name="a")
    dag = ComputeDAG([compute((6,), lambda i: select(i < 4, a[i], -1.0), name="s")])
    assert one(dag, {"a": np.arange(4.0)}).tolist() == [0, 1, 2, 3, -1, -1]


def test_gather_through_a_table():
    a, table = placeholder((5,), name="a"), placeholder((3,), "int64", "table")
    dag = ComputeDAG([compute((3,), lambda i: a[maximum(minimum(table[i], 4), 0)] * 2.0, name="s")])
    result = one(dag, {"a": np.arange(5.0), "table": np.array([4, -7, 2])})
    assert result.tolist() == [8, 0, 4]


@pytest.mark.parametrize("index", [lambda x: x, lambda x: minimum(x, 4), lambda x: x % 6])
def test_an_index_that_is_data_must_be_clamped(index):
    a, table = placeholder((5,), name="a"), placeholder((3,), "int64", "table")
    with pytest.raises(ExpressionError, match=r"is data .*clamp it: maximum\(minimum"):
        ComputeDAG([compute((3,), lambda i: a[index(table[i])], name="s")])


def test_padded_tap_is_not_multiplied(rng):
    data = placeholder((1, 3, 3, 1), name="data")
    weight = placeholder((3, 3, 1, 1), name="weight")
    dag = ComputeDAG([conv2d(data, weight, 1, 1)])
    inputs = random_inputs(dag, rng)
    inputs["weight"][0, 0] = np.inf  # met by padding at the upper and left border only
    assert np.isfinite(one(dag, inputs)[0, 0]).all()


@pytest.mark.parametrize("factor", [1.0, np.inf])
def test_infinite_factors_are_not_taken_out_of_sums(factor):
    a, b = placeholder((2,), name="a"), placeholder((2,), name="b")
    k, m = reduce_axis(2, "k"), reduce_axis(2, "m")
    dag = ComputeDAG(
        [compute((1,), lambda i: reducers.sum(a[k] * b[m] * factor, (k, m)), name="s")]
    )
    inputs = {"a": np.array([2.0, -1.0]), "b": np.array([np.inf if factor == 1 else 1, 3.0])}
    assert np.isnan(one(dag, inputs)).all()  # inf - inf, not the sum of a times infinity


def test_nan_spreads_through_maxima():
    a = placeholder((2, 3), name="a")
    dag = ComputeDAG([reduction.max(a, 1)])
    result = one(dag, {"a": np.array([[1, np.nan, 2], [1, 3, 2]])})
    assert np.isnan(result[0]) and result[1] == 3


def test_argmax_takes_the_first_of_equal_values():
    dag = argmax_dag(2, 5)
    data = np.array([[1, 7, 3, 7, 0], [-np.inf, 2, 2, 2, 2]])
    result = interpret(dag, {"data": data})
    assert result["argmax.v0"].tolist() == [1, 1] and result["argmax.v0"].dtype == np.int64
    assert result["argmax.v1"].tolist() == [7, 2]


@pytest.mark.parametrize("function", ["argmax", "argmin"])
def test_nan_is_the_extreme_of_floats(function):
    data = np.array([[1, np.nan, 3, np.nan], [np.inf, -np.inf, 0, 1], [np.nan, 2, 3, np.inf]])
    index, value = getattr(reduction, function)(placeholder((3, 4), name="data"), 1)
    result = interpret(ComputeDAG([index, value]), {"data": data})
    expected = getattr(np, function)(data, axis=1)
    assert result[index.name].tolist() == expected.tolist()
    np.testing.assert_array_equal(result[value.name], data[np.arange(3), expected])


def welford():
    """Running (count, mean, sum of squared deviations): a combine of three values."""
    lhs = tuple(Var(f"lhs{i}", "float32") for i in range(3))
    rhs = tuple(Var(f"rhs{i}", "float32") for i in range(3))
    count = lhs[0] + rhs[0]
    divisor = maximum(count, 1.0)
    delta = rhs[1] - lhs[1]
    result = (
        count,
        lhs[1] + delta * rhs[0] / divisor,
        lhs[2] + rhs[2] + delta * delta * lhs[0] * rhs[0] / divisor,
    )
    return Reducer("welford", lhs, rhs, result, tuple(Const(0.0, "float32") for _ in range(3)))


@pytest.mark.parametrize("chunk", [1 << 20, 64])
def test_user_defined_tuple_reducer(chunk, rng, monkeypatch):
    monkeypatch.setattr(stage_values, "GENERAL_ELEMENTS", chunk)
    a = placeholder((5, 37), name="a")
    k = reduce_axis(37)
    stage = compute(
        (5,),
        lambda i: reducers.reduce(welford(), (Const(1.0, "float32"), a[i, k], a[i, k] * 0.0), k),
    )
    values = rng.standard_normal((5, 37))
    result = interpret(ComputeDAG(stage), {"a": values})
    np.testing.assert_allclose(result["compute.v1"], values.mean(1))
    np.testing.assert_allclose(result["compute.v2"] / 37, values.var(1))


def test_order_is_kept_for_combines_that_do_not_commute():
    lhs, rhs = Var("lhs", "int64"), Var("rhs", "int64")
    last = Reducer(
        "last", (lhs,), (rhs,), (select(equal(rhs, -1), lhs, rhs),), (Const(-1, "int64"),)
    )
    a = placeholder((2, 7), "int64", "a")
    k = reduce_axis(7)
    dag = ComputeDAG([compute((2,), lambda i: reducers.reduce(last, (a[i, k],), k), name="s")])
    values = np.array([[3, -1, 5, 2, -1, 9, -1], [1, 2, 3, 4, 5, 6, 7]])
    assert one(dag, {"a": values}).tolist() == [9, 7]


def test_sum_over_an_axis_that_no_operand_has():
    a = placeholder((3,), name="a")
    k = reduce_axis(4)
    dag = ComputeDAG([compute((3,), lambda i: reducers.sum(a[i] * 2.0, k), name="s")])
    inputs = {"a": np.arange(3.0)}
    assert one(dag, inputs).tolist() == one(dag, inputs, fast=False).tolist() == [0, 8, 16]


# --- references -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORKLOADS)
def test_sampled_reference_agrees_with_the_whole(name, rng):
    dag = WORKLOADS[name]()
    inputs = random_inputs(dag, rng)
    sampled = sample_reference(dag, inputs, rng)
    assert sampled.check(interpret(dag, inputs)) < 1e-12


def test_sampled_points_through_a_producer_that_is_not_computed_whole(rng):
    points = Sampling(whole_below_flops=0.0)
    for dag in (conv2d_relu(), WORKLOADS["average_pool"](), WORKLOADS["softmax"]()):
        inputs = random_inputs(dag, rng)
        assert sample_reference(dag, inputs, rng, points).check(interpret(dag, inputs)) < 1e-12


def test_reference_samples_only_above_a_gigaflop(rng):
    small = matmul_dag(8, 8, 8)
    assert reference(small, random_inputs(small, rng), rng).outputs["C"].positions is None
    large = matmul_dag(1024, 512, 1024)
    inputs = random_inputs(large, rng)
    sampled = reference(large, inputs, rng)
    positions = sampled.outputs["C"].positions
    assert positions is not None and 4096 <= positions.size < 8192
    product = inputs["A"] @ inputs["B"]
    assert sampled.check({"C": product}) < 1e-5
    product[-1, -1] += 10
    assert sampled.check({"C": product}) > 1e-3  # corners are always looked at


def test_sample_points_hold_corners_and_tile_boundaries(rng):
    points = sample_points((1000, 3, 70), rng)
    seen = {tuple(p) for p in points.tolist()}
    assert {(0, 0, 0), (999, 2, 69), (999, 0, 69)} <= seen
    assert len(seen) == len(points)
    assert {63, 64} <= {p[2] for p in seen}
    assert sample_points((), rng).shape == (1, 0)


def test_check_measures_relative_error():
    exact = Reference({"y": Samples((3,), np.array([1.0, -4.0, 2.0]), None)})
    assert exact.check({"y": np.array([1, -4, 2], dtype="f4")}) == 0
    assert exact.check({"y": np.array([1.5, -4, 2])}) == 0.125
    assert exact.check({"y": np.array([np.nan, -4, 2])}) == math.inf
    assert exact.check({"y": np.array([np.inf, -4, 2])}) == math.inf


def test_check_of_nan_infinity_zero_and_integers():
    odd = Reference({"y": Samples((3,), np.array([np.nan, -np.inf, 2.0]), None)})
    assert odd.check({"y": np.array([np.nan, -np.inf, 2])}) == 0
    assert odd.check({"y": np.array([np.nan, np.inf, 2])}) == math.inf
    assert odd.check({"y": np.array([0, -np.inf, 2])}) == math.inf
    zero = Reference({"y": Samples((2,), np.zeros(2), None)})
    assert zero.check({"y": np.array([0, 0.25])}) == 0.25
    whole = Reference({"y": Samples((2,), np.array([1, 2]), None)})
    assert whole.check({"y": np.array([1, 2])}) == 0
    assert whole.check({"y": np.array([1, 3])}) == math.inf


def test_check_refuses_missing_and_misshapen_outputs():
    exact = Reference({"y": Samples((3,), np.zeros(3), None)})
    with pytest.raises(ExpressionError, match="missing"):
        exact.check({})
    with pytest.raises(ExpressionError, match="has shape"):
        exact.check({"y": np.zeros(4)})


def test_reference_is_picklable(rng):
    dag = matmul_dag(4, 4, 4)
    inputs = random_inputs(dag, rng)
    copy = pickle.loads(pickle.dumps(reference(dag, inputs, rng)))
    assert copy.check(interpret(dag, inputs)) == 0


def test_a_sample_takes_no_memory_for_the_points_between() -> None:
    rows = 1 << 20
    x = placeholder((rows, 4), name="x")
    doubled = compute((rows, 4), lambda i, j: x[i, j] * 2.0, name="doubled")
    y = compute((rows, 4), lambda i, j: doubled[rows - 1 - i, j] + 1.0, name="y")
    dag, inputs = ComputeDAG([y]), {"x": np.ones((rows, 4), np.float32)}
    tracemalloc.start()
    sampled = sample_reference(dag, inputs, np.random.default_rng(0), Sampling(8, 1, 2, (8,), -1.0))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20
    assert (sampled.outputs["y"].values == 3.0).all()
