"""Long chains, deep expressions and shared sub-expressions: linear in size, or refused in words."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Network, Value
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from sketch.analysis.expr_size import MOST_LEVELS
from sketch.errors import ExpressionError, ScheduleError
from sketch.lang.expr import Expr
from sketch.rules.generate import MAX_SKETCHES, explore
from sketch.schedule.program import initial_program
from sketch.schedule.replay import apply_step
from sketch.schedule.stage import StageId
from sketch.schedule.steps import Inline
from tests.support.targets import SMALL

TARGET = asd.Target("cpu", threads=2)
SIZE = 64


def chain(length: int, step: Callable[[Expr], Expr]) -> asd.ComputeDAG:
    """``length`` element-wise stages, one after another."""
    tensor = asd.placeholder((SIZE,), name="a")
    for number in range(length):
        source = tensor
        tensor = asd.compute(
            (SIZE,), lambda i, t=source: step(t[i]), name=f"t{number}", axis_names="i"
        )
    return asd.ComputeDAG([tensor])


def nested(depth: int, step: Callable[[Expr], Expr]) -> asd.ComputeDAG:
    """One stage of ``depth`` nested steps."""
    data = asd.placeholder((SIZE,), name="a")

    def body(i: Expr) -> Expr:
        value = data[i]
        for _ in range(depth):
            value = step(value)
        return value

    return asd.ComputeDAG([asd.compute((SIZE,), body, name="t")])


def run(dag: asd.ComputeDAG, array: np.ndarray) -> np.ndarray:
    (result,) = asd.Task(dag, TARGET).module().run({"a": array}).values()
    return np.asarray(result)


def swish(x: Expr) -> Expr:
    return x * asd.sigmoid(x)


def test_a_chain_of_many_stages() -> None:
    array = np.linspace(-1, 1, SIZE).astype(np.float32)
    dag = chain(80, lambda x: x * 0.5 + 1.0)
    again = pickle.loads(pickle.dumps(dag))
    assert again.key == dag.key
    expected = array
    for _ in range(80):
        expected = expected * np.float32(0.5) + np.float32(1)
    np.testing.assert_allclose(run(again, array), expected, rtol=1e-6)


def test_doublings_take_no_longer_than_other_operators() -> None:
    array = np.linspace(-1, 1, SIZE).astype(np.float32)
    np.testing.assert_array_equal(
        run(chain(64, lambda x: x + x), array), array * np.float32(2.0**64)
    )


def test_a_value_that_is_used_twice_at_every_step() -> None:
    array = np.linspace(-1, 1, SIZE).astype(np.float32)
    expected = array.astype(np.float64)
    for _ in range(12):
        expected = expected / (1 + np.exp(-expected))
    np.testing.assert_allclose(run(chain(12, swish), array), expected, rtol=1e-4, atol=1e-9)


def test_networks_are_cut_into_kernels() -> None:
    builder = GraphBuilder("chain")
    name = builder.input(Value("x", (SIZE,)))
    for _ in range(200):
        name = builder.add(UnaryOp("neg"), [name])
        name = builder.add(BinaryOp("add"), [name, name])
    module = asd.compile(Network("chain", builder.finish({"y": name})), TARGET)
    assert 4 <= len(module.program.kernel_steps) < 40
    array = np.zeros(SIZE, np.float32)
    (result,) = module.run({"x": array}).values()
    np.testing.assert_array_equal(result, array)


@pytest.mark.parametrize("depth", [500, pytest.param(5000, marks=pytest.mark.slow)])
def test_deep_expressions_are_refused_in_words(depth: int) -> None:
    with pytest.raises(ExpressionError, match=r"levels deep.*stages of their own"):
        nested(depth, lambda x: x + 1.0)
    with pytest.raises(ExpressionError, match="levels deep"):
        nested(depth, lambda x: asd.select(x > 0.5, x * 0.5, x + 1.0))


def test_expressions_that_double_are_refused_in_words() -> None:
    with pytest.raises(ExpressionError, match=r"more than 10\^19 operations"):
        nested(64, lambda x: x * x)


@pytest.mark.parametrize(
    "step",
    [
        lambda x: x + 1.0,
        pytest.param(asd.exp, marks=pytest.mark.slow),  # some hundred exponentials in a row
        lambda x: asd.maximum(0.5, x),
    ],
)
def test_the_deepest_expression_compiles_on_a_deep_stack(step: Callable[[Expr], Expr]) -> None:
    array = np.linspace(-1, 1, SIZE).astype(np.float32)

    def call(frames: int) -> np.ndarray:
        if frames:
            return call(frames - 1)
        return run(nested(MOST_LEVELS - 3, step), array)

    call(100)


def test_programs_of_too_many_stages_are_refused() -> None:
    with pytest.raises(ExpressionError, match="a program of 1001 stages"):
        chain(1001, lambda x: x + 1.0)


def test_a_step_cannot_make_a_statement_too_large() -> None:
    program = initial_program(chain(40, lambda x: x * x))
    with pytest.raises(ScheduleError, match="is too large with"):
        for number in range(38, -1, -1):
            program = apply_step(program, Inline(StageId(number)))


def test_what_is_cut_away_is_counted_and_never_the_root() -> None:
    """Every tanh of a pair may be inlined or not: 2^8 sketches."""
    a = asd.placeholder((SIZE,), name="a")
    total = a
    for number in range(8):
        root = asd.compute(
            (SIZE,), lambda i, t=total: asd.tanh(t[i]), name=f"r{number}", axis_names="i"
        )
        pair = [
            asd.compute(
                (SIZE // 2,),
                lambda i, t=root, n=n: t[2 * i + n],
                name=f"p{number}{n}",
                axis_names="i",
            )
            for n in range(2)
        ]
        total = asd.compute(
            (SIZE,),
            lambda i, p=pair: p[0][i // 2] + p[1][i // 2],
            name=f"s{number}",
            axis_names="i",
        )
    found = explore(asd.ComputeDAG([total]), SMALL)
    assert len(found.sketches) <= MAX_SKETCHES
    if found.dropped:
        assert any(not sketch.program.attached for sketch in found.sketches)


def test_an_element_looked_up_through_many_tables() -> None:
    table = np.random.default_rng(0).permutation(SIZE).astype(np.int32)
    data = asd.placeholder((SIZE,), "int32", name="a")

    def body(i: Expr) -> Expr:
        value = data[i]
        for _ in range(40):
            value = data[asd.maximum(asd.minimum(value, SIZE - 1), 0)]
        return value

    expected = table
    for _ in range(40):
        expected = table[expected]
    dag = asd.ComputeDAG([asd.compute((SIZE,), body, name="t")])
    np.testing.assert_array_equal(run(dag, table), expected)


@pytest.mark.slow
def test_deep_selects_of_16_bit_floats_are_refused_in_words() -> None:
    data = asd.placeholder((SIZE,), "float16", name="a")

    def body(i: Expr) -> Expr:
        value = data[i]
        for _ in range(220):
            value = asd.select(i > 3, value + 1.0, value)
        return value

    with pytest.raises(ExpressionError, match="levels deep"):
        asd.ComputeDAG([asd.compute((SIZE,), body, name="t")])


@pytest.mark.parametrize("stages", [12, pytest.param(20, marks=pytest.mark.slow)])
def test_fewer_alternatives_are_followed_up_in_a_chain_of_products(stages: int) -> None:
    value = asd.placeholder((SIZE, SIZE), name="x")
    for number in range(stages):
        weight = asd.placeholder((SIZE, SIZE), name=f"w{number}")
        k = asd.reduce_axis(SIZE, name=f"k{number}")
        value = asd.compute(
            (SIZE, SIZE),
            lambda i, j, a=value, b=weight, k=k: asd.sum(a[i, k] * b[k, j], k),
            name=f"y{number}",
            axis_names=("i", "j"),
        )
    found = explore(asd.ComputeDAG([value]), SMALL)
    assert found.dropped > 0
    assert 16 <= len(found.sketches) <= max(16, 1024 // stages)
    assert not found.sketches[-1].program.attached
