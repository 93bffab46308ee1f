"""A builder of small graphs with seeded weights, and how two graphs are compared."""

from __future__ import annotations

import numpy as np

from autosched.graph.builder import GraphBuilder
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Graph, Value
from autosched.graph.ops.base import Op, Shape
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.elementwise import UnaryOp
from autosched.graph.ops.norm import BatchNorm


class Net(GraphBuilder):
    """A builder with seeded weights."""

    def __init__(self, shape: Shape, name: str = "x") -> None:
        super().__init__("net")
        self._rng = np.random.default_rng(0)
        self.x = self.input(Value(name, shape))

    def random(self, *shape: int) -> str:
        array = self._rng.standard_normal(shape, dtype=np.float32)
        return self.constant(self.unique("w"), array)

    def positive(self, count: int) -> str:
        array = self._rng.uniform(0.5, 2, count).astype(np.float32)
        return self.constant(self.unique("variance"), array)

    def conv(self, data: str, channels: int, kernel: int = 3, **attributes: object) -> str:
        op = Conv(padding=(kernel // 2,) * 4, **attributes)  # type: ignore[arg-type]
        inputs = self.types[data].shape[1] // op.groups
        return self.add(op, [data, self.random(channels, inputs, kernel, kernel)])

    def norm(self, data: str) -> str:
        count = self.types[data].shape[1]
        parameters = [self.random(count) for _ in range(3)]
        return self.add(BatchNorm(), [data, *parameters, self.positive(count)])

    def unary(self, data: str, function: str = "relu") -> str:
        return self.add(UnaryOp(function), [data])  # type: ignore[arg-type]

    def then(self, op: Op, *data: str) -> str:
        return self.add(op, data)


def values_of(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return evaluate(graph, {v.name: rng.standard_normal(v.shape) for v in graph.inputs})


def assert_close(
    values: dict[str, np.ndarray], expected: dict[str, np.ndarray], where: str
) -> None:
    for name, array in expected.items():
        error = np.abs(values[name] - array).max() / np.abs(array).max()
        assert error < 1e-5, f"{where}: output {name} is off by {error}"


def kinds_of(graph: Graph) -> list[str]:
    return [node.op.kind for node in graph.nodes]
