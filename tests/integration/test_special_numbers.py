"""NaN, infinities and signed zeros through compiled kernels: what NumPy and IEEE 754 say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sketch.dag.dag import ComputeDAG
from sketch.lang import functions, reducers
from sketch.lang.dtypes import numpy_dtype
from sketch.lang.expr import Const, Expr, binary, cast, select
from sketch.lang.functions import maximum, minimum
from sketch.lang.scalar_functions import rounded
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.operators import activations, elementwise
from sketch.operators.softmax import softmax
from sketch.oracle.interpret import interpret
from tests.support.compiled import random_run
from tests.support.cpu_targets import by_kind, in_turns, instruction_sets, label

TARGETS = instruction_sets()
FLOATS = ("float32", "float64", "float16", "bfloat16")
INF, NAN = np.inf, np.nan
# Two full vectors of the widest machine and a tail, so that scalar and vector code both see them.
VALUES = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 100.0, -100.0, 2.5, -1.5]


def values(dtype: str) -> np.ndarray:
    return np.resize(np.array(VALUES), 37).astype(numpy_dtype(dtype))


def run_all(dtype: str, target: Any) -> list[np.ndarray]:
    """The results of all functions, in the order of the table."""
    data = placeholder((37,), dtype, "x")
    functions = [function for function, _ in GOLDEN.values()]
    results = compute((37,), lambda i: tuple(f(data[i]) for f in functions), name="y")
    outputs = random_run(ComputeDAG(list(results)), {"x": values(dtype)}, target, 0, 0, 8)
    return [outputs[tensor.name] for tensor in results]


GOLDEN: dict[str, tuple[Callable[[Expr], Any], list[float]]] = {
    "exp": (functions.exp, [NAN, INF, 0, 1, 1, np.e, 1 / np.e]),
    "log": (functions.log, [NAN, INF, NAN, -INF, -INF, 0, NAN]),
    "sqrt": (functions.sqrt, [NAN, INF, NAN, 0, -0.0, 1, NAN]),
    "tanh": (functions.tanh, [NAN, 1, -1, 0, -0.0, 0.7615941559557649, -0.7615941559557649]),
    "erf": (functions.erf, [NAN, 1, -1, 0, -0.0, 0.8427007929497149, -0.8427007929497149]),
    "sigmoid": (functions.sigmoid, [NAN, 1, 0, 0.5, 0.5, 0.7310585786300049, 0.2689414213699951]),
    "sin": (functions.sin, [NAN, NAN, NAN, 0, -0.0, np.sin(1), -np.sin(1)]),
    "atan": (functions.atan, [NAN, np.pi / 2, -np.pi / 2, 0, -0.0, np.pi / 4, -np.pi / 4]),
    "acosh": (functions.acosh, [NAN, INF, NAN, NAN, NAN, 0, NAN]),
    "atanh": (functions.atanh, [NAN, NAN, NAN, 0, -0.0, INF, -INF]),
    "log1p": (functions.log1p, [NAN, INF, NAN, 0, -0.0, np.log(2), -INF]),
    "expm1": (functions.expm1, [NAN, INF, -1, 0, -0.0, np.expm1(1), np.expm1(-1)]),
    "round": (functions.round, [NAN, INF, -INF, 0, -0.0, 1, -1, 0, -0.0, 100, -100, 2, -2]),
    "trunc": (functions.trunc, [NAN, INF, -INF, 0, -0.0, 1, -1, 0, -0.0, 100, -100, 2, -1]),
    "floor": (functions.floor, [NAN, INF, -INF, 0, -0.0, 1, -1, 0, -1, 100, -100, 2, -2]),
    "ceil": (functions.ceil, [NAN, INF, -INF, 0, -0.0, 1, -1, 1, -0.0, 100, -100, 3, -1]),
    "sign": (functions.sign, [NAN, 1, -1, 0, 0, 1, -1, 1, -1, 1, -1, 1, -1]),
    "abs": (functions.abs, [NAN, INF, INF, 0, 0, 1, 1, 0.5, 0.5, 100, 100, 2.5, 1.5]),
    "relu": (lambda x: maximum(x, 0), [NAN, INF, 0, 0, 0, 1, 0, 0.5, 0]),
    "relu, literal first": (lambda x: maximum(0, x), [NAN, INF, 0, 0, 0, 1, 0, 0.5, 0]),
    "clip": (lambda x: minimum(maximum(x, -1), 1), [NAN, 1, -1, 0, 0, 1, -1, 0.5, -0.5, 1, -1]),
    "reciprocal": (lambda x: 1 / x, [NAN, 0, -0.0, INF, -INF, 1, -1, 2, -2]),
    "no more than NaN": (lambda x: minimum(x, NAN), [NAN] * 13),
    "no less than NaN": (lambda x: maximum(NAN, x), [NAN] * 13),
    "quotient of itself": (lambda x: x / x, [NAN, NAN, NAN, NAN, NAN, 1, 1]),
    "zero by it": (lambda x: 0.0 / x, [NAN, 0, -0.0, NAN, NAN, 0, -0.0]),
    "power 0": (lambda x: functions.pow(x, 0.0), [1] * 13),
    "power of 1": (lambda x: functions.pow(1.0, x), [1] * 13),
    "power 0.5": (lambda x: functions.pow(x, 0.5), [NAN, INF, INF, 0, 0, 1, NAN]),
    "either": (lambda x: select(x > 0, x, x), [NAN, INF, -INF, 0, -0.0, 1, -1]),
    "hard swish": (lambda x: activations.hard_swish(x), [NAN, INF, NAN, 0, 0, 2 / 3, -1 / 3]),
    "times zero": (lambda x: x * 0.0, [NAN, NAN, NAN, 0, -0.0, 0, -0.0]),
    "minus itself": (lambda x: x - x, [NAN, NAN, NAN, 0, 0, 0, 0]),
    "select": (lambda x: select(x > 0, x, x * 0.5), [NAN, INF, -INF, 0, -0.0, 1, -0.5]),
    "ordered": (lambda x: select(x < 1, 1.0, 2.0), [2, 2, 1, 1, 1, 2, 1]),
    "fmod": (lambda x: functions.fmod(x, 2.0), [NAN, NAN, NAN, 0, -0.0, 1, -1, 0.5, -0.5]),
    "mod": (lambda x: x % 2.0, [NAN, NAN, NAN, 0, 0, 1, 1, 0.5, 1.5, 0, 0, 0.5, 0.5]),
    "to int8": (lambda x: cast(x, "int8"), [0, 127, -128, 0, 0, 1, -1, 0, 0, 100, -100, 2, -1]),
    "to uint8": (lambda x: cast(x, "uint8"), [0, 255, 0, 0, 0, 1, 0, 0, 0, 100, 0, 2, 0]),
    "to bool": (lambda x: cast(x, "bool"), [1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]),
    "is nan": (functions.isnan, [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
    "is inf": (functions.isinf, [0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
}


@pytest.mark.parametrize(("dtype", "target"), in_turns(FLOATS, TARGETS))
def test_functions(dtype: str, target: Any) -> None:
    tolerance = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 4e-7, "float64": 4e-16}[dtype]
    for (name, (_, wanted)), got in zip(GOLDEN.items(), run_all(dtype, target), strict=True):
        for start in range(0, 37, len(VALUES)):
            part = got[start : start + len(wanted)].astype(np.float64)
            expected = np.array(wanted, np.float64)[: len(part)]
            np.testing.assert_allclose(part, expected, rtol=tolerance, err_msg=name)


@pytest.mark.parametrize(("kind", "target"), in_turns(["max", "min", "sum"], TARGETS))
def test_reductions_pass_nan_on(kind: str, target: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 53)).astype(np.float32)
    x[0, 7], x[1, 52], x[2, 0] = NAN, NAN, INF
    x[3, 50] = -INF
    x[4] = -INF
    x[5, 3], x[5, 40] = INF, NAN
    data, k = placeholder((6, 53), name="x"), reduce_axis(53)
    reduce = getattr(reducers, kind)
    dag = ComputeDAG([compute(6, lambda i: reduce(data[i, k], k), name="y")])
    expected = getattr(np, kind)(x.astype(np.float64), axis=1)
    for choice in range(4):
        got = random_run(dag, {"x": x}, target, choice, choice)["y"]
        np.testing.assert_allclose(got, expected, rtol=1e-5)


OPERATORS = (
    "add", "sub", "mul", "div", "floordiv", "mod", "trunc_mod", "min", "max", "pow",
    "lt", "le", "gt", "ge", "eq", "ne",
)  # fmt: skip
DENORMAL_AND_HUGE = [1e-45, -1e-45, 1e-40, 1.1754944e-38, -3.4028235e38, 1e30, 2.0**63, 3.0]


@pytest.mark.parametrize(("dtype", "target"), in_turns(FLOATS, TARGETS))
def test_operators_on_all_pairs(dtype: str, target: Any) -> None:
    with np.errstate(over="ignore"):
        every = np.array([*VALUES, *DENORMAL_AND_HUGE]).astype(numpy_dtype(dtype))
    count = len(every) ** 2
    inputs = {"x": np.repeat(every, len(every)), "y": np.tile(every, len(every))}
    x, y = (placeholder((count,), dtype, name) for name in inputs)
    results = compute((count,), lambda i: tuple(binary(op, x[i], y[i]) for op in OPERATORS), "z")
    dag = ComputeDAG(list(results))
    expected = interpret(dag, inputs)
    outputs = random_run(dag, inputs, target, 0, 0, rows=8)
    for op, tensor in zip(OPERATORS, results, strict=True):
        with np.errstate(over="ignore"):
            wanted = rounded(expected[tensor.name], tensor.dtype)
        got = outputs[tensor.name].astype(wanted.dtype)
        # pow alone is not exact
        np.testing.assert_allclose(got, wanted, 4e-7, 3e-45, err_msg=op)


@pytest.mark.parametrize("target", by_kind(TARGETS), ids=label)
def test_hard_swish_does_not_overflow(target: Any) -> None:
    x = np.full(37, 3e38, np.float32)
    dag = ComputeDAG([elementwise.hard_swish(placeholder((37,), name="x"), "y")])
    np.testing.assert_allclose(random_run(dag, {"x": x}, target, 0, 0)["y"], x, rtol=1e-6)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("kind", "target"), in_turns(["argmax", "argmin"], TARGETS))
def test_nan_is_the_largest_and_the_least(kind: str, last: bool, target: Any) -> None:
    x = np.random.default_rng(0).standard_normal((7, 53)).astype(np.float32)
    x[0, [7, 40]], x[1, 52], x[2, 0], x[3], x[4] = NAN, NAN, NAN, -INF, INF
    x[5, [3, 20, 33]] = NAN, INF, -INF
    data, k = placeholder((7, 53), name="x"), reduce_axis(53)
    function = getattr(reducers, kind)
    dag = ComputeDAG(list(compute(7, lambda i: function(k, data[i, k], k, last), name="y")))
    position = getattr(np, kind)(x[:, ::-1] if last else x, axis=1)
    index = 52 - position if last else position
    for choice in range(4):
        got = random_run(dag, {"x": x}, target, choice, choice)
        np.testing.assert_array_equal(got["y.v0"], index)
        np.testing.assert_array_equal(got["y.v1"], x[np.arange(7), index])


@pytest.mark.parametrize(("factor", "target"), in_turns([0.0, 1.0, -1.0, INF, NAN], TARGETS))
def test_terms_with_a_literal_factor(factor: float, target: Any) -> None:
    x = np.random.default_rng(0).standard_normal((4, 19)).astype(np.float32)
    x[0, 3], x[1, 4], x[2] = NAN, INF, 0
    data, k = placeholder((4, 19), name="x"), reduce_axis(19)
    dag = ComputeDAG(
        [compute(4, lambda i: reducers.sum(data[i, k] * Const(factor, "float32"), k), name="y")]
    )
    with np.errstate(invalid="ignore"):
        expected = (x.astype(np.float64) * factor).sum(1)
    np.testing.assert_allclose(interpret(dag, {"x": x})["y"], expected)
    for choice in range(3):
        got = random_run(dag, {"x": x}, target, choice, choice)["y"]
        np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("target", by_kind(TARGETS), ids=label)
def test_masked_softmax(target: Any) -> None:
    """Entries of minus infinity get probability 0; a row of nothing else is NaN."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 21)).astype(np.float32)
    x[0, 3:], x[1, ::2], x[2] = -INF, -INF, -INF
    x[3, 4] = NAN
    with np.errstate(invalid="ignore"):
        power = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
        expected = power / power.sum(axis=1, keepdims=True)
    dag = ComputeDAG([softmax(placeholder((5, 21), name="x"), name="y")])
    for choice in range(3):
        got = random_run(dag, {"x": x}, target, choice, choice)["y"]
        np.testing.assert_allclose(got, expected, rtol=1e-5)
        assert not got[0, 3:].any()


@pytest.mark.parametrize("target", by_kind(TARGETS), ids=label)
def test_matrix_products_pass_nan_and_infinity_on(target: Any) -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((9, 17)).astype(np.float32)
    b = rng.standard_normal((17, 35)).astype(np.float32)
    a[2, 3], a[4, 0], b[5, 6], b[16, 34] = NAN, INF, -INF, NAN
    b[0, 1] = 0.0
    lhs, rhs = placeholder((9, 17), name="A"), placeholder((17, 35), name="B", constant=True)
    k = reduce_axis(17)

    def bare() -> Tensor:
        total: Tensor = compute(
            (9, 35), lambda i, j: reducers.sum(lhs[i, k] * rhs[k, j], k), name="C"
        )
        return total

    dag = ComputeDAG([elementwise.relu(bare(), name="y")])
    with np.errstate(invalid="ignore"):
        expected = np.maximum((a.astype(np.float64)[:, :, None] * b[None]).sum(1), 0)
    for choice in range(3):
        got = random_run(dag, {"A": a, "B": b}, target, choice, choice)["y"]
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
