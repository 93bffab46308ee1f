"""Random graphs: optimised, fused and lowered, they compute what they did before."""

import numpy as np
import pytest

from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.activation import Activation
from autosched.graph.ops.base import Op
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp, Where
from autosched.graph.ops.gather import Gather, GatherElements
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.movement import Expand, Slice, Triangle
from autosched.graph.ops.norm import BatchNorm, LocalResponseNorm, Normalize
from autosched.graph.ops.pooling import GlobalPool, Pool
from autosched.graph.ops.reduce import Cumulative, ReduceOp
from autosched.graph.ops.resample import Resample
from autosched.graph.ops.shape import Concat, Pad, Reshape, Transpose
from autosched.graph.ops.softmax import Softmax
from tests.support.examples import half
from tests.support.extractions import run_kernels

STEPS = 14


class _Generator:
    """Grows a graph by random operators on random earlier values."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = GraphBuilder(f"random{seed}")
        shape = tuple(int(extent) for extent in self.rng.integers(1, 6, 4))
        self.values = [self.builder.input(Value("x", shape))]

    def graph(self) -> Graph:
        for _ in range(STEPS):
            choice = self.rng.integers(len(_MAKERS))
            _MAKERS[choice](self)
        count = int(self.rng.integers(1, 4))
        kept = {self.pick(): None for _ in range(count)} | {self.values[-1]: None}
        return self.builder.finish({f"y{i}": value for i, value in enumerate(kept)})

    def pick(self, rank: int | None = None) -> str:
        """An earlier value, late ones more likely, of this rank if there is one."""
        fitting = [v for v in self.values if rank in (None, len(self.shape(v)))]
        back = int(self.rng.geometric(0.5))
        return (fitting or self.values)[-min(back, len(fitting or self.values))]

    def shape(self, value: str) -> tuple[int, ...]:
        return self.builder.types[value].shape

    def weight(self, *shape: int) -> str:
        array = self.rng.uniform(-1, 1, shape).astype(np.float32)
        return self.builder.constant(self.builder.unique("w"), array)

    def indices(self, *shape: int) -> str:
        array = self.rng.integers(-7, 7, tuple(int(n) for n in shape))
        return self.builder.constant(self.builder.unique("indices"), np.asarray(array))

    def add(self, op: Op, *inputs: str) -> None:
        self.values.append(self.builder.add(op, inputs))


def _conv(g: _Generator) -> None:
    data = g.pick(4)
    if len(g.shape(data)) == 4:
        _, channels, height, width = g.shape(data)
        kernel = int(g.rng.integers(1, min(height, width) + 1))
        top, right = (int(p) for p in g.rng.integers(0, 2, 2))
        stride = int(g.rng.integers(1, 3))
        out = int(g.rng.integers(1, 5))
        inputs = [data, g.weight(out, channels, kernel, kernel)]
        inputs += [g.weight(out)] if g.rng.random() < 0.3 else []
        g.add(Conv((stride, stride), (top, 0, 1, right)), *inputs)


def _norm(g: _Generator) -> None:
    data = g.pick(4)
    if len(g.shape(data)) >= 2:
        count = g.shape(data)[1]
        variance = g.rng.uniform(0.5, 2, count).astype(np.float32)
        name = g.builder.constant(g.builder.unique("variance"), variance)
        g.add(BatchNorm(), data, *(g.weight(count) for _ in range(3)), name)


def _pool(g: _Generator) -> None:
    data = g.pick(4)
    if len(g.shape(data)) == 4:
        _, _, height, width = g.shape(data)
        if g.rng.random() < 0.3:
            g.add(GlobalPool("avg"), data)
        elif min(height, width) > 1:
            mode = "max" if g.rng.random() < 0.5 else "avg"
            g.add(Pool(mode, (2, 2), (1, 2), (1, 0, 0, 1)), data)


def _unary(g: _Generator) -> None:
    g.add(UnaryOp(("relu", "tanh", "sigmoid", "neg")[g.rng.integers(4)]), g.pick())


def _activation(g: _Generator) -> None:
    match int(g.rng.integers(4)):
        case 0:
            g.add(Activation("elu", (0.7,)), g.pick())
        case 1:
            g.add(Activation(("softplus", "gelu_tanh", "mish")[g.rng.integers(3)]), g.pick())
        case 2:
            data = g.pick()
            g.add(BinaryOp("prelu"), data, g.weight(*g.shape(data)[1:]))
        case _:
            data = g.pick()
            limit = g.weight(*g.shape(data)[-1:])
            test = g.builder.add(BinaryOp(("lt", "ge")[g.rng.integers(2)]), [data, limit])
            g.add(Where(), test, data, g.weight(1))


def _binary(g: _Generator) -> None:
    data = g.pick()
    shape = g.shape(data)
    same = [v for v in g.values if g.shape(v) == shape]
    if g.rng.random() < 0.6:
        other = same[g.rng.integers(len(same))]
    else:
        partial = [1 if g.rng.random() < 0.5 else n for n in shape]
        other = g.weight(*partial[g.rng.integers(len(shape)) :])
    operands = (data, other) if g.rng.random() < 0.5 else (other, data)
    g.add(BinaryOp(("add", "mul", "sub", "max")[g.rng.integers(4)]), *operands)


def _dense(g: _Generator) -> None:
    data = g.pick()
    if len(g.shape(data)) >= 2:
        batch, *rest = g.shape(data)
        flat = g.builder.add(Reshape((batch, int(np.prod(rest)))), [data])
        features = int(g.rng.integers(1, 6))
        g.add(Dense(), flat, g.weight(int(np.prod(rest)), features))


def _reduce(g: _Generator) -> None:
    data = g.pick()
    rank = len(g.shape(data))
    if rank >= 2:
        count = int(g.rng.integers(1, rank))
        axes = tuple(sorted(int(a) for a in g.rng.choice(rank, count, replace=False)))
        function = ("sum", "mean", "max")[g.rng.integers(3)]
        g.add(ReduceOp(function, axes, bool(g.rng.random() < 0.5)), data)


def _move(g: _Generator) -> None:
    data = g.pick()
    rank = len(g.shape(data))
    match int(g.rng.integers(5)):
        case 0:
            g.add(Transpose(tuple(int(a) for a in g.rng.permutation(rank))), data)
        case 1:
            g.add(Concat(int(g.rng.integers(rank))), data, data)
        case 2:
            low, high = (tuple(int(p) for p in g.rng.integers(0, 2, rank)) for _ in range(2))
            g.add(Pad(low, high, float(g.rng.integers(0, 2))), data)
        case 3:
            g.add(Softmax(int(g.rng.integers(rank))), data)
        case _:
            g.add(Reshape(tuple(reversed(g.shape(data)))), data)


def _pick_elements(g: _Generator) -> None:
    """Slices, repetitions, triangles and gathers at indices that may be out of range."""
    data = g.pick()
    shape = g.shape(data)
    rank = len(shape)
    axis = int(g.rng.integers(rank)) if rank else 0
    match int(g.rng.integers(5)):
        case 0 if rank:
            bounds = [_random_bounds(g, extent) for extent in shape]
            g.add(Slice(*(tuple(part) for part in zip(*bounds, strict=True))), data)
        case 1:
            g.add(Expand((int(g.rng.integers(1, 3)), *shape)), data)
        case 2 if rank >= 2:
            g.add(Triangle(bool(g.rng.random() < 0.5), int(g.rng.integers(-2, 3))), data)
        case 3 if rank:
            g.add(Gather(axis), data, g.indices(*g.rng.integers(1, 4, g.rng.integers(0, 3))))
        case 4 if rank:
            g.add(GatherElements(axis), data, g.indices(*shape))


def _random_bounds(g: _Generator, extent: int) -> tuple[int, int, int]:
    first, last = sorted(int(n) for n in g.rng.integers(0, extent, 2))
    step = int(g.rng.integers(1, 3))
    return (first, last + 1, step) if g.rng.random() < 0.7 else (last, first - 1, -step)


def _channels(g: _Generator) -> None:
    """Channel shuffles, and the halves of a split joined the other way round."""
    data = g.pick(4)
    shape = g.shape(data)
    if len(shape) == 4 and shape[1] % 2 == 0:
        batch, channels, height, width = shape
        if g.rng.random() < 0.5:
            halves = g.builder.add(Reshape((batch, 2, channels // 2, height, width)), [data])
            swapped = g.builder.add(Transpose((0, 2, 1, 3, 4)), [halves])
            g.add(Reshape(shape), swapped)
        else:
            low, high = (
                g.builder.add(
                    Slice((0, c, 0, 0), (batch, c + channels // 2, height, width), (1,) * 4), [data]
                )
                for c in (0, channels // 2)
            )
            g.add(Concat(1), high, low)


def _statistics(g: _Generator) -> None:
    """What reads a row, or all elements of some dimensions, for each of its results."""
    data = g.pick()
    rank = len(g.shape(data))
    if rank == 0:
        return
    axis = int(g.rng.integers(rank))
    count = int(g.rng.integers(1, rank + 1))
    axes = tuple(sorted(int(a) for a in g.rng.choice(rank, count, replace=False)))
    keepdims = count == rank or bool(g.rng.random() < 0.5)
    match int(g.rng.integers(6)):
        case 0:
            g.add(Normalize(axes, 0.5, bool(g.rng.random() < 0.7)), data)
        case 1:
            g.add(LocalResponseNorm(int(g.rng.integers(1, 4)), 0.5, axis=axis), data)
        case 2:
            scan = ("sum", "prod")[g.rng.integers(2)]
            g.add(Cumulative(scan, axis, keepdims, bool(g.rng.random() < 0.5)), data)
        case 3:
            g.add(Softmax(axis, log=True), data)
        case 4:
            function = ("l1", "l2", "sum_square", "log_sum_exp", "prod")[g.rng.integers(5)]
            g.add(ReduceOp(function, axes, keepdims), data)
        case _:
            shape = (int(g.rng.integers(1, 6)), int(g.rng.integers(1, 3)))
            positions = g.rng.integers(0, g.shape(data)[axis], shape)
            name = g.builder.constant(g.builder.unique("positions"), positions)
            g.add(Resample(axis), data, name, g.weight(*shape))


def _product(g: _Generator) -> None:
    """Rows of a value times rows of the same value, both in a random order of dimensions."""
    data = g.pick()
    rank = len(g.shape(data))
    if rank < 2:
        return
    order = tuple(int(a) for a in g.rng.permutation(rank))
    lhs = g.builder.add(Transpose(order), [data])
    rhs = g.builder.add(Transpose((*order[:-2], order[-1], order[-2])), [data])
    product = g.builder.add(MatMul(), [lhs, rhs])
    back = tuple(int(a) for a in g.rng.permutation(rank))
    g.add(Transpose(back), product)
    if g.rng.random() < 0.5:
        letters = "abcdefgh"[:rank]
        other = g.builder.add(UnaryOp("tanh"), [data])
        g.add(Einsum((letters, letters), letters[-2::-1]), data, other)


def _pool_any_rank(g: _Generator) -> None:
    data = g.pick()
    spatial = g.shape(data)[2:]
    if spatial:
        window = tuple(int(g.rng.integers(1, min(extent, 2) + 1)) for extent in spatial)
        mode = ("max", "avg", "sum")[g.rng.integers(3)]
        g.add(Pool(mode, window, (1,) * len(spatial), ceil_mode=True), data)


_MAKERS = (
    _statistics,
    _statistics,
    _product,
    _pool_any_rank,
    _conv,
    _conv,
    _norm,
    _pool,
    _unary,
    _activation,
    _binary,
    _binary,
    _dense,
    _reduce,
    _move,
    _pick_elements,
    _channels,
)


@pytest.mark.parametrize("seed", half(range(60)))
def test_kernels_compute_the_graph(seed: int) -> None:
    graph = _Generator(seed).graph()
    rng = np.random.default_rng(seed)
    inputs = {v.name: rng.standard_normal(v.shape) for v in graph.inputs}
    extraction = extract(graph)
    values = run_kernels(extraction, inputs)
    for name, expected in evaluate(graph, inputs).items():
        assert np.abs(values[name] - expected).max() <= 1e-4 * max(np.abs(expected).max(), 1e-3)


@pytest.mark.parametrize("seed", half(range(60)))
def test_special_numbers_stay_where_they_are(seed: int) -> None:
    """Also where weights are infinite: no pass may turn a NaN into a number, or the other way."""
    graph = _Generator(seed).graph()
    rng = np.random.default_rng(seed)
    inputs = {v.name: _with_special(rng.standard_normal(v.shape), rng) for v in graph.inputs}
    weights = {
        name: _with_special(array, rng) if array.dtype.kind == "f" else array
        for name, array in graph.constants.items()
    }
    graph = Graph(graph.name, graph.inputs, graph.results, graph.nodes, weights)
    values = run_kernels(extract(graph), inputs)
    for name, expected in evaluate(graph, inputs).items():
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(values[name][~finite], expected[~finite])
        assert np.isfinite(values[name][finite]).all()


def _with_special(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """``array`` with every twelfth element, or so, a special number."""
    chosen = rng.random(array.shape) < 1 / 12
    special = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], array.shape)
    return np.where(chosen, special, array).astype(array.dtype)
