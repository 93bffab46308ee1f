"""Values inside others: joined, taken apart and reshaped at random, they are what they were."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import autosched as asd
from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.ir import Graph, Network, Value
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.graph.ops.matmul import Dense
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.ops.shape import Concat, Reshape
from autosched.graph.parts import reshaped_strides
from tests.support.examples import half
from tests.support.extractions import run_kernels

STEPS = 12
ROWS, CHANNELS = 4, 6


class _Net(GraphBuilder):
    """Values ``[ROWS, ..., channels]``: later ones join, slice or view earlier ones."""

    def __init__(self, seed: int) -> None:
        super().__init__(f"net{seed}")
        self.rng = np.random.default_rng(seed)
        start = self.input(Value("x", (ROWS, CHANNELS)))
        self.values = [self.add(UnaryOp("relu"), [start]), start]

    def grow(self) -> Graph:
        for _ in range(STEPS):
            step = self.rng.choice([self.join, self.join, self.part, self.view, self.compute])
            self.values.append(step(self.pick()))
        kept = {self.pick(): None for _ in range(2)}
        kept[self.add(UnaryOp("neg"), [self.values[-1]])] = None
        return self.finish({f"y{i}": value for i, value in enumerate(kept)})

    def pick(self) -> str:
        back = int(self.rng.geometric(0.3))
        return self.values[-min(back, len(self.values))]

    def join(self, data: str) -> str:
        """What is joined already grows, and may be an operand again."""
        rank = len(self.types[data].shape)
        axis = int(self.rng.integers(rank))
        shape = self.types[data].shape
        others = [
            v
            for v in self.values
            if len(self.types[v].shape) == rank
            and np.array_equal(np.delete(self.types[v].shape, axis), np.delete(shape, axis))
        ]
        count = int(self.rng.integers(1, 3))
        chosen = [others[int(i)] for i in self.rng.integers(len(others), size=count)]
        return self.add(Concat(axis), [data, *chosen])

    def part(self, data: str) -> str:
        bounds = []
        for extent in self.types[data].shape:
            first = int(self.rng.integers(extent)) if self.rng.random() < 0.5 else 0
            stop = int(self.rng.integers(first + 1, extent + 1))
            bounds.append((first, stop, 2 if self.rng.random() < 0.1 else 1))
        return self.add(Slice(*(tuple(part) for part in zip(*bounds, strict=True))), [data])

    def view(self, data: str) -> str:
        *rows, last = self.types[data].shape
        if len(rows) > 1:
            return self.add(Reshape((int(np.prod(rows)), last)), [data])
        shape = (*rows, last // 2, 2) if last % 2 == 0 else (*rows, 1, last)
        return self.add(Reshape(shape), [data])

    def compute(self, data: str) -> str:
        shape = self.types[data].shape
        match int(self.rng.integers(4)):
            case 0 if len(shape) == 2:
                weight = self.rng.standard_normal((shape[-1], CHANNELS), dtype=np.float32)
                return self.add(Dense(), [data, self.constant(self.unique("w"), weight)])
            case 1 if len(shape) > 2:
                return self.add(ReduceOp("sum", (1,), keepdims=False), [data])
            case 2:
                return self.add(BinaryOp("add"), [data, data])
        return self.add(UnaryOp("tanh"), [data])


@pytest.mark.parametrize("seed", half(range(60)))
def test_values_inside_others_are_what_they_were(seed: int) -> None:
    graph = _Net(seed).grow()
    inputs = {"x": np.random.default_rng(seed).standard_normal((ROWS, CHANNELS))}
    values = run_kernels(extract(graph), inputs)
    for name, expected in evaluate(graph, inputs).items():
        np.testing.assert_allclose(values[name], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", (6, 14, 22, 30))
def test_compiled_kernels_read_and_write_them_in_place(seed: int) -> None:
    graph = _Net(seed).grow()
    assert extract(graph).parts
    inputs = {"x": np.random.default_rng(seed).standard_normal((ROWS, CHANNELS), dtype=np.float32)}
    values = asd.compile(Network("net", graph), asd.Target("cpu", threads=1)).run(inputs)
    for name, expected in evaluate(graph, inputs).items():
        np.testing.assert_allclose(values[name], expected, rtol=1e-5, atol=1e-5)


def test_a_slice_of_an_input_is_read_where_the_caller_has_it() -> None:
    builder = GraphBuilder("net")
    x = builder.input(Value("x", (6, CHANNELS)))
    rows = builder.add(Slice((2, 0), (5, CHANNELS), (1, 1)), [x])
    weight = np.random.default_rng(0).standard_normal((CHANNELS, 3), dtype=np.float32)
    graph = builder.finish({"y": builder.add(Dense(), [rows, builder.constant("w", weight)])})
    assert [call.output for call in extract(graph).calls] == [graph.results[0].value]
    module = asd.compile(Network("net", graph), asd.Target("cpu", threads=1))
    wide = np.random.default_rng(1).standard_normal((6, 2 * CHANNELS), dtype=np.float32)
    for array in (wide[:, :CHANNELS], wide[:, ::2].copy()):
        np.testing.assert_allclose(module(array), array[2:5] @ weight, rtol=1e-5, atol=1e-5)


_EXTENTS = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)


@given(_EXTENTS, st.data())
def test_strides_of_another_shape_reach_the_same_elements(
    shape: list[int], data: st.DataObject
) -> None:
    larger = [extent + data.draw(st.integers(0, 1)) for extent in shape]
    whole = np.arange(np.prod(larger), dtype=np.int32).reshape(larger)
    part = whole[tuple(slice(extent) for extent in shape)]
    strides = tuple(step // whole.itemsize for step in part.strides)
    wanted = data.draw(_shapes_of(part.size))
    found = reshaped_strides(tuple(shape), strides, wanted)
    view = part.view()
    try:
        view.shape = wanted
    except AttributeError:
        assert found is None
        return
    assert found is not None
    steps = [step * whole.itemsize for step in found]
    reached = np.lib.stride_tricks.as_strided(whole, wanted, steps)
    np.testing.assert_array_equal(reached, part.reshape(wanted))


@st.composite
def _shapes_of(draw: st.DrawFn, size: int) -> tuple[int, ...]:
    """Extents whose product is ``size``."""
    shape: list[int] = []
    while size > 1:
        divisors = [n for n in range(2, size + 1) if size % n == 0]
        shape.append(draw(st.sampled_from(divisors)))
        size //= shape[-1]
        if draw(st.booleans()):
            shape.append(1)
    return tuple(shape) or (1,)
