"""Random programs on NaN, infinities and signed zeros: kernels have them where the oracle does.

Finite values are small, so that nothing overflows in float32 that does not in the oracle's float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from sketch.dag.dag import ComputeDAG
from sketch.lang import reducers
from sketch.lang.dtypes import FLOATS, numpy_dtype
from sketch.lang.expr import Const, Expr, Load, binary, cast, select, unary
from sketch.lang.functions import all_of
from sketch.lang.tensor import Tensor, compute, placeholder, reduce_axis
from sketch.operators.softmax import log_softmax, softmax
from tests.support.compiled import check_run
from tests.support.cpu_targets import runnable
from tests.support.examples import examples
from tests.support.odd_names import renamed

TARGETS = runnable()
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0]
# The least number, where arithmetic is done with the oracle's range of exponents or a wider one.
LEAST = {"float16": [6e-8], "float64": [5e-324]}
PLAIN = [1.0, -1.0, 2.0, -0.5, 3.0]
BINARY = ("add", "sub", "mul", "div", "min", "max", "floordiv", "mod", "trunc_mod", "pow")
EXACT = ("neg", "abs", "sign", "floor", "ceil", "round", "trunc")
# Results that are not exact stay at the top: a rounding below a comparison may turn it around.
SMOOTH = ("exp", "log", "sqrt", "rsqrt", "tanh", "erf", "sigmoid", "sin", "atan", "expm1", "log1p")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
COMMON = examples(
    80, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip


def literal(draw: Any, dtype: str) -> Expr:
    return Const(draw(st.sampled_from([*SPECIAL, *PLAIN])), dtype)


def divisor(value: Expr) -> Expr:
    """The sign of a computed zero is not defined: an added 0 makes it positive."""
    return value if isinstance(value, Load | Const) else value + 0.0


def expression(draw: Any, leaves: list[Expr], depth: int) -> Expr:
    """A random tree over ``leaves`` and literals, of the dtype of the leaves."""
    if depth == 0:
        return draw(st.sampled_from(leaves))
    first = expression(draw, leaves, depth - 1)
    match draw(st.sampled_from(["binary", "binary", "literal", "unary", "select", "test", "cast"])):
        case "unary":
            return unary(draw(st.sampled_from(EXACT)), first)
        case "select":
            second = expression(draw, leaves, depth - 1)
            test = binary(draw(st.sampled_from(COMPARISONS)), first, second)
            return select(test, *draw(st.permutations([first, second])))
        case "test":
            test = unary(draw(st.sampled_from(["is_nan", "is_inf"])), first)
            return select(test, draw(st.sampled_from(leaves)), first)
        case "cast":
            return cast(cast(first, draw(st.sampled_from(["int8", "uint8", "bool"]))), first.dtype)
        case kind:
            other = literal(draw, first.dtype) if kind == "literal" else None
            second = expression(draw, leaves, depth - 1) if other is None else other
            lhs, rhs = draw(st.permutations([first, second]))
            op = draw(st.sampled_from(BINARY if depth == 1 else BINARY[:6]))
            return binary(op, lhs, divisor(rhs))


def elements(draw: Any, leaves: list[Expr]) -> Expr:
    value = expression(draw, leaves, draw(st.integers(1, 3)))
    return unary(draw(st.sampled_from(SMOOTH)), value) if draw(st.booleans()) else value


def _map(draw: Any, x: Tensor, y: Tensor) -> list[Tensor]:
    return [compute(x.shape, lambda i, j: elements(draw, [x[i, j], y[i, j]]), name="out")]


def _reduce(draw: Any, x: Tensor, y: Tensor) -> list[Tensor]:
    k = reduce_axis(x.shape[1])
    reduce = getattr(reducers, draw(st.sampled_from(["max", "min", "sum", "prod"])))
    depth, factor = draw(st.integers(0, 2)), draw(st.one_of(st.none(), st.just(0.0)))

    def element(i: Expr) -> Expr:
        value = expression(draw, [x[i, k], y[i, k]], depth)
        return reduce(value if factor is None else value * factor, k)

    return [compute(x.shape[0], element, name="out")]


def _argument(draw: Any, x: Tensor, y: Tensor) -> list[Tensor]:
    k, last = reduce_axis(x.shape[1]), draw(st.booleans())
    function = getattr(reducers, draw(st.sampled_from(["argmax", "argmin"])))
    return list(compute(x.shape[0], lambda i: function(k, x[i, k], k, last), name="out"))


def _window(draw: Any, x: Tensor, y: Tensor) -> list[Tensor]:
    """A padded window along rows: taps outside are the identity, and are not multiplied."""
    k, before = reduce_axis(draw(st.integers(1, 4))), draw(st.integers(0, 2))
    kind = draw(st.sampled_from(["max", "min", "sum"]))
    fill = {"max": reducers.lowest, "min": reducers.highest, "sum": lambda dtype: 0.0}[kind]

    def element(i: Expr, j: Expr) -> Expr:
        place = j + k - before
        inside = all_of(place >= 0, place < x.shape[1])
        value = x[i, place] * y[0, k] if kind == "sum" else x[i, place]
        return getattr(reducers, kind)(select(inside, value, fill(x.dtype)), k)

    return [compute(x.shape, element, name="out")]


def _product(draw: Any, x: Tensor, y: Tensor) -> list[Tensor]:
    """A matrix product and what follows it."""
    k, depth = reduce_axis(x.shape[1]), draw(st.integers(0, 2))
    w = placeholder((x.shape[1], 37), x.dtype, "w", constant=draw(st.booleans()))
    total = compute((x.shape[0], 37), lambda i, j: reducers.sum(x[i, k] * w[k, j], k), name="total")
    bias = lambda j: w[0, j]  # noqa: E731
    value = lambda i, j: cast(total[i, j], x.dtype)  # noqa: E731
    return [
        compute(
            (x.shape[0], 37),
            lambda i, j: expression(draw, [value(i, j), bias(j)], depth),
            name="out",
        )
    ]


def _softmax(draw: Any, x: Tensor, y: Tensor) -> list[Tensor]:
    return [draw(st.sampled_from([softmax, log_softmax]))(x, name="out")]


KINDS: tuple[Callable[[Any, Tensor, Tensor], list[Tensor]], ...] = (
    _map, _map, _reduce, _argument, _window, _product, _softmax,
)  # fmt: skip


@st.composite
def programs(draw: Any) -> ComputeDAG:
    shape = (draw(st.integers(1, 5)), draw(st.integers(4, 70)))
    dtype = draw(st.sampled_from(FLOATS))
    x, y = placeholder(shape, dtype, "x"), placeholder(shape, dtype, "y")
    return ComputeDAG(draw(st.sampled_from(KINDS))(draw, x, y))


def arrays_of(dag: ComputeDAG, share: float, seed: int) -> dict[str, np.ndarray]:
    """Whole numbers, and a share of values where something happens."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for tensor in dag.inputs:
        values = rng.integers(-4, 5, tensor.shape).astype(np.float64)
        chosen = rng.random(tensor.shape) < share
        some = SPECIAL[: rng.integers(1, len(SPECIAL) + 1)] + LEAST.get(tensor.dtype, [])
        values[chosen] = rng.choice(some, chosen.sum())
        arrays[tensor.name] = values.astype(numpy_dtype(tensor.dtype))
    return arrays


@COMMON
@given(
    programs().flatmap(renamed),
    st.sampled_from([0.02, 0.2, 0.9]),
    st.integers(0, len(TARGETS) - 1),
    st.integers(0, 7),
    st.integers(0, 2**32 - 1),
)
def test_random_programs(
    dag: ComputeDAG, share: float, target: int, choice: int, seed: int
) -> None:
    check_run(dag, arrays_of(dag, share, seed), TARGETS[target], choice, seed)
