"""Random scalar expressions over leaves of one dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from campaign.tensor.numbers import FLOATS

Expression = list[Any]
Leaf = Callable[[], Expression]

_FLOAT_BINARY: Final = ("add", "sub", "mul", "min", "max")
_FLOAT_UNARY: Final = ("neg", "abs", "sign", "floor", "ceil", "round", "trunc")
_TAME: Final = (
    "tanh", "sigmoid", "erf", "sin", "cos", "atan", "asinh", "exp", "expm1", "sinh", "cosh", "tan"
)  # fmt: skip
_OF_POSITIVE: Final = ("log", "log1p", "sqrt", "rsqrt", "acosh")
_INTEGER_BINARY: Final = (
    "add", "sub", "mul", "min", "max", "floordiv", "mod", "trunc_div", "trunc_mod", "bit_and",
    "bit_or", "bit_xor", "shift_left", "shift_right", "pow",
)  # fmt: skip
_COMPARISONS: Final = ("lt", "le", "gt", "ge", "eq", "ne")


def constant(rng: Random, dtype: str) -> Expression:
    """A small literal that every dtype can hold."""
    if dtype == "bool":
        return ["const", rng.random() < 0.5, "bool"]
    if dtype in FLOATS:
        return ["const", rng.choice((0.0, 1.0, -1.0, 0.5, 2.0, -0.25, 3.0)), dtype]
    return ["const", rng.choice((0, 1, 2, 3, 7)), dtype]


def draw_body(rng: Random, dtype: str, leaf: Leaf, depth: int) -> Expression:
    """An expression of ``dtype`` whose leaves are of ``dtype``, too."""
    if depth <= 0:
        return leaf() if rng.random() < 0.85 else constant(rng, dtype)
    if dtype == "bool":
        return _truth(rng, leaf, depth)

    def inner() -> Expression:
        return draw_body(rng, dtype, leaf, depth - 1)

    kind = rng.random()
    if kind < 0.12:
        return leaf()
    if kind < 0.24:
        test = [rng.choice(_COMPARISONS), leaf(), constant(rng, dtype)]
        return ["select", test, inner(), inner()]
    return (_float if dtype in FLOATS else _integer)(rng, dtype, inner)


def _float(rng: Random, dtype: str, inner: Leaf) -> Expression:
    kind = rng.random()
    if kind < 0.5:
        return [rng.choice(_FLOAT_BINARY), inner(), inner()]
    if kind < 0.6:
        return ["div", inner(), ["add", ["abs", inner()], ["const", 1.0, dtype]]]
    if kind < 0.7:
        return [rng.choice(_FLOAT_UNARY), inner()]
    if kind < 0.88:
        bounded = ["min", ["max", inner(), ["const", -4.0, dtype]], ["const", 4.0, dtype]]
        return [rng.choice(_TAME), bounded]
    positive = ["add", ["abs", inner()], ["const", 1.0, dtype]]
    if kind < 0.95:
        return [rng.choice(_OF_POSITIVE), positive]
    if dtype in ("float32", "float64"):
        if rng.random() < 0.5:
            return ["cast", dtype, ["cast", rng.choice(("int32", "int8", "uint8")), inner()]]
        return ["pow", positive, rng.choice((["const", 1.5, dtype], ["const", -0.5, dtype]))]
    return ["mul", inner(), constant(rng, dtype)]


def _integer(rng: Random, dtype: str, inner: Leaf) -> Expression:
    kind = rng.random()
    if kind < 0.75:
        return [rng.choice(_INTEGER_BINARY), inner(), inner()]
    if kind < 0.9:
        return [rng.choice(("neg", "abs", "sign", "bit_not")), inner()]
    other = rng.choice(("int8", "int16", "int32", "int64", "uint8"))
    return ["cast", dtype, ["cast", other, inner()]]


def _truth(rng: Random, leaf: Leaf, depth: int) -> Expression:
    def inner() -> Expression:
        return draw_body(rng, "bool", leaf, depth - 1)

    if rng.random() < 0.3:
        return ["not", inner()]
    return [rng.choice(("and", "or", "ne", "eq")), inner(), inner()]


def converted(rng: Random, node: Expression, source: str, dtype: str) -> Expression:
    """``node`` in another dtype: by a cast, or by a comparison for truth values."""
    if source == dtype:
        return node
    if dtype == "bool" and rng.random() < 0.5:
        return [rng.choice(_COMPARISONS), node, constant(rng, source)]
    return ["cast", dtype, node]


def names_in(node: Any) -> set[str]:
    """The tensors that an expression reads."""
    if not isinstance(node, list):
        return set()
    own = {node[1]} if node and node[0] == "load" else set()
    return own.union(*(names_in(part) for part in node))


def loads(nodes: Sequence[Any]) -> set[str]:
    """The tensors that some expressions read."""
    return set().union(*(names_in(node) for node in nodes))
