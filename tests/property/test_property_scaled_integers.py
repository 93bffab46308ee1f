"""Random chains of moves between a dequantisation and what reads it: on integers or on floats, the
shapes are the same, and the numbers nearly.
"""

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.base import Op
from autosched.graph.ops.elementwise import BinaryOp, CastOp, UnaryOp
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.movement import Expand, Slice
from autosched.graph.ops.pooling import GlobalPool, Pool
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.ops.shape import Concat, Pad, Reshape, Transpose
from autosched.graph.optimize import optimize
from autosched.graph.passes.integer_products import integer_products
from tests.support.examples import half

MOVES = 6
LARGEST = 300  # elements of a value


class _Chain:
    """One value after the other, each made of the one before."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = GraphBuilder(f"chain{seed}")
        shape = self.extents(int(self.rng.integers(1, 5)))
        dtype = ("uint8", "int8")[self.rng.integers(2)]
        self.value = self.builder.input(Value("x", shape, dtype))

    def graph(self) -> Graph:
        self._dequantised()
        kept = {}
        for _ in range(MOVES):
            self._move()
            if self.rng.random() < 0.2:
                kept[f"y{len(kept)}"] = self.value
        self._read()
        return self.builder.finish({**kept, "y": self.value})

    @property
    def shape(self) -> tuple[int, ...]:
        return self.builder.types[self.value].shape

    def extents(self, rank: int) -> tuple[int, ...]:
        return tuple(int(n) for n in self.rng.integers(1, 5, rank))

    def add(self, op: Op, *others: str) -> None:
        self.value = self.builder.add(op, (self.value, *others))

    def constant(self, array: np.ndarray) -> str:
        return self.builder.constant(self.builder.unique("constant"), array)

    def _parameters(self, choices: list[float]) -> str:
        """A scalar, one number of as many dimensions as the value, or one for each slice."""
        extents = [1] * len(self.shape)
        match int(self.rng.integers(3)):
            case 0:
                extents = []
            case 1:
                axis = int(self.rng.integers(len(extents)))
                extents[axis] = self.shape[axis]
        return self.constant(self.rng.choice(choices, extents).astype(np.float32))

    def _dequantised(self) -> None:
        self.add(CastOp("float32"))
        if self.rng.random() < 0.7:
            self.add(BinaryOp("sub"), self._parameters([0, 3, -7, 128]))
        if self.rng.random() < 0.7:
            self.add(BinaryOp("mul"), self._parameters([0.25, 0.02, 2]))

    def _move(self) -> None:
        shape, rank = self.shape, len(self.shape)
        axis = int(self.rng.integers(rank)) if rank else 0
        match int(self.rng.integers(8)):
            case 0 | 1:
                self._reshape()
            case 2 | 3:
                self.add(Transpose(tuple(int(a) for a in self.rng.permutation(rank))))
            case 4 if rank:
                start = [int(self.rng.integers(n)) for n in shape]
                self.add(Slice(tuple(start), shape, (1,) * rank))
            case 5 if np.prod(shape, dtype=int) < LARGEST:
                self.add(Expand((*self.extents(int(self.rng.integers(3))), *shape)))
            case 6 if rank:
                points = self.rng.integers(0, 3, self.extents(int(self.rng.integers(3))))
                self.add(Gather(axis), self.constant(np.asarray(points)))
            case 7 if rank:
                self._join(axis)

    def _reshape(self) -> None:
        """Dimensions joined, dropped, new, or in another order."""
        shape = [int(n) for n in self.rng.permutation(self.shape)]
        if len(shape) > 1 and self.rng.random() < 0.5:
            shape[:2] = [shape[0] * shape[1]]
        if self.rng.random() < 0.5:
            shape = [n for n in shape if n > 1]
        elif len(shape) < 6:
            shape.insert(int(self.rng.integers(len(shape) + 1)), 1)
        self.add(Reshape(tuple(shape)))

    def _join(self, axis: int) -> None:
        rank = len(self.shape)
        match int(self.rng.integers(3)):
            case 0:
                low, high = (tuple(int(p) for p in self.rng.integers(0, 2, rank)) for _ in range(2))
                self.add(Pad(low, high))
            case 1:
                self.add(Concat(axis), self.value)
            case 2 if rank > 2:
                self.add(Pool("max", (1,) * (rank - 2), (1,) * (rank - 2)))

    def _read(self) -> None:
        """What is computed on integers, or on floats that are made of them."""
        rank = len(self.shape)
        axis = int(self.rng.integers(rank)) if rank else 0
        match int(self.rng.integers(6)):
            case 0 | 1 if rank:
                keepdims = bool(self.rng.random() < 0.5)
                self.add(ReduceOp("mean", (axis,), keepdims))
                self.add(UnaryOp("neg"))
            case 2 if rank > 2:
                self.add(GlobalPool("avg"))
            case 3 if rank > 1:
                weight = self.rng.integers(-9, 9, (self.shape[-1], 3)).astype(np.int8)
                bytes_ = self.builder.add(CastOp("float32"), [self.constant(weight)])
                scale = self.constant(np.asarray(0.5, np.float32))
                self.add(MatMul(), self.builder.add(BinaryOp("mul"), [bytes_, scale]))
            case 4 if rank > 1:
                order = (*range(rank - 2), rank - 1, rank - 2)
                self.add(MatMul(), self.builder.add(Transpose(order), [self.value]))
            case _:
                self.add(UnaryOp("relu"))


@pytest.mark.parametrize("seed", half(range(300)))
def test_moves_of_scaled_integers(seed: int) -> None:
    graph = _Chain(seed).graph()
    (given,) = graph.inputs
    rng = np.random.default_rng(seed)
    low = 0 if given.dtype == "uint8" else -128
    inputs = {"x": rng.integers(low, low + 256, given.shape).astype(given.dtype)}
    expected = evaluate(graph, inputs)
    for changed in (integer_products(graph), optimize(graph)):
        for result in changed.results:
            assert changed.types[result.value].shape == expected[result.name].shape
        for name, found in evaluate(changed, inputs).items():
            np.testing.assert_allclose(found, expected[name], rtol=1e-4, atol=1e-3)
