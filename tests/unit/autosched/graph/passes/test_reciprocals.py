"""Quotients by constants become products where nobody sees another last digit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.graph.passes.reciprocals import multiply_by_reciprocals
from tests.support.small_graphs import Net


def quotient(
    divisor: float, *readers: str, dtype: str = "float32", returned: bool = False
) -> Graph:
    net = Net((3, 5))
    data = net.input(Value("data", (3, 5), dtype))
    constant = net.constant("divisor", np.array([divisor], dtype))
    value = net.then(BinaryOp("div"), data, constant)
    results = {f"y{n}": net.then(UnaryOp(name), value) for n, name in enumerate(readers)}
    return net.finish(results | ({"quotient": value} if returned or not readers else {}))


def functions(graph: Graph) -> list[str]:
    return [node.op.function for node in graph.nodes if isinstance(node.op, BinaryOp)]


@pytest.mark.parametrize("divisor", [8.0, -0.5, 1.0, 2.0**126, 2.0**-126])
def test_exact_reciprocals_change_no_bit(divisor: float) -> None:
    graph = quotient(divisor)
    changed = multiply_by_reciprocals(graph)
    assert functions(changed) == ["mul"]
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 1e-38, 3.4e38, 1 / 3, 7.0]
    x = np.resize(np.array(special, np.float32), (3, 5))
    found, expected = (evaluate(g, {"x": x, "data": x})["quotient"] for g in (changed, graph))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("divisor", "readers", "returned", "expected"),
    [
        (math.sqrt(2), ("erf",), False, "mul"),
        (3.0, ("tanh", "erf"), False, "mul"),
        (math.sqrt(2), ("erf",), True, "div"),  # somebody sees the quotient itself
        (49.0, ("floor",), False, "div"),  # 49 * (1 / 49) is less than 1
        (3.0, ("erf", "floor"), False, "div"),
        (3.0, (), False, "div"),
        (0.0, ("erf",), False, "div"),
        (math.inf, ("erf",), False, "div"),
        (math.nan, ("erf",), False, "div"),
        (2.0**-127, ("erf",), False, "div"),  # denormal numbers may count as 0
        (2.0**127, ("erf",), False, "div"),
    ],
)
def test_rounded_reciprocals_are_for_functions_with_no_larger_errors(
    divisor: float, readers: tuple[str, ...], returned: bool, expected: str
) -> None:
    assert functions(multiply_by_reciprocals(quotient(divisor, *readers, returned=returned))) == [
        expected
    ]


def test_16_bit_quotients_stay() -> None:
    assert functions(multiply_by_reciprocals(quotient(3.0, "erf", dtype="float16"))) == ["div"]


def test_constants_that_are_divided_stay() -> None:
    net = Net((3, 5))
    constant = net.constant("number", np.array([8.0], np.float32))
    graph = net.finish({"y": net.then(BinaryOp("div"), constant, net.x)})
    assert functions(multiply_by_reciprocals(graph)) == ["div"]


def test_a_vector_of_divisors() -> None:
    net = Net((3, 5))
    mixed = net.constant("mixed", np.array([1, 2, 4, 8, 3], np.float32))
    exact = net.constant("exact", np.array([1, 2, -4, 8, 0.25], np.float32))
    value = net.then(BinaryOp("div"), net.x, mixed)
    graph = net.finish({"y": net.then(BinaryOp("div"), value, exact)})
    assert functions(multiply_by_reciprocals(graph)) == ["div", "mul"]
