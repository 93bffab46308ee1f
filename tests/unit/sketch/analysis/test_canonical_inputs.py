"""Programs of one key have corresponding placeholders at equal positions."""

from itertools import permutations

import numpy as np

from sketch.dag.dag import ComputeDAG
from sketch.lang.tensor import Tensor, compute, placeholder
from sketch.oracle.interpret import interpret

SHAPES = {"a": (4, 6), "b": (4, 6), "c": (1, 6), "d": (4, 1)}


def _program(order: tuple[str, ...]) -> ComputeDAG:
    """``a*c + b`` and then times ``d``, its placeholders named by ``order``, operands commuted."""
    names = dict(zip(SHAPES, order, strict=True))
    a, b, c, d = (placeholder(SHAPES[role], name=names[role]) for role in SHAPES)

    def total(i: Tensor, j: Tensor) -> Tensor:
        product = a[i, j] * c[0, j] if order[0] < order[2] else c[0, j] * a[i, j]
        return product + b[i, j] if order[0] < order[1] else b[i, j] + product

    first = compute(SHAPES["a"], lambda i, j: total(i, j), name="first")
    return ComputeDAG([compute(SHAPES["a"], lambda i, j: first[i, j] * d[i, 0], name="second")])


def test_inputs_correspond_by_position() -> None:
    rng = np.random.default_rng(0)
    reference = _program(("a", "b", "c", "d"))
    arrays = [rng.standard_normal(tensor.shape) for tensor in reference.canonical_inputs]
    expected = _run(reference, arrays)
    for order in permutations("wxyz"):
        program = _program(order)
        assert program.key == reference.key
        np.testing.assert_allclose(_run(program, arrays), expected)


def _run(program: ComputeDAG, arrays: list[np.ndarray]) -> np.ndarray:
    names = [tensor.name for tensor in program.canonical_inputs]
    return interpret(program, dict(zip(names, arrays, strict=True)))["second"]
