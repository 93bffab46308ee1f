"""Float values that are known through integers, and quantisation, as dataflow says them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from autosched.graph.evaluate import evaluate_node
from autosched.graph.ir import Array, Graph, Node
from autosched.graph.ops.base import Op, Shape
from autosched.graph.ops.elementwise import BinaryOp, CastOp, UnaryOp
from autosched.graph.ops.shape import Transpose
from sketch.lang.dtypes import BYTES

_Number = TypeVar("_Number", bound=np.generic)

_LARGEST: Final = 1e30  # of scales: some hundred times as much is a number, still
_LARGEST_ZERO: Final = 2**15  # differences are exact in float32


@dataclass(frozen=True, slots=True, eq=False)
class ScaledIntegers:
    """``(value - zero) * scale``.

    Attributes:
        value: name of an integer value.
        zero: int64, broadcasts to it; a scalar where it has one element, whatever it is made from.
        scale: float32; likewise.
        most: bound of ``abs(value - zero)`` where the value is a sum; 0: it is none.
    """

    value: str
    zero: NDArray[np.int64]
    scale: NDArray[np.float32]
    most: int = 0

    def __post_init__(self) -> None:
        # A value that is moved may come to have fewer dimensions than its parameters were given in.
        object.__setattr__(self, "zero", _without_dimensions(self.zero))
        object.__setattr__(self, "scale", _without_dimensions(self.scale))

    @property
    def is_uniform(self) -> bool:
        """Whether one scale and one zero point are for all elements."""
        return self.zero.size == self.scale.size == 1

    @property
    def reach(self) -> int:
        """Bound of ``abs(value - zero)`` of bytes."""
        return max(255, 255 + int(np.abs(self.zero).max()))

    def times(self, factor: Array, divide: bool) -> ScaledIntegers | None:
        """Multiplied or divided by constants; None where that leaves the usual numbers."""
        function = np.divide if divide else np.multiply
        with np.errstate(all="ignore"):
            scale = np.asarray(function(self.scale, factor), np.float32)
        tiny = np.finfo(np.float32).tiny
        normal = ((np.abs(scale) >= tiny) & (np.abs(scale) <= _LARGEST)).all()
        return replace(self, scale=scale) if normal else None

    def moved(self, op: Op) -> ScaledIntegers | None:
        """Parameters of what ``op`` moves the elements of the value to; None where they differ
        between elements, and it does not just reorder dimensions.
        """
        if self.is_uniform:
            return self
        if not isinstance(op, Transpose):
            return None
        zero = _transposed(self.zero, op.permutation)
        return replace(self, zero=zero, scale=_transposed(self.scale, op.permutation))


@dataclass(frozen=True, slots=True)
class Quantisation:
    """``saturate(round(scaled) + zero)``, of type ``dtype``; ``rounded`` is what is rounded."""

    scaled: str
    rounded: str
    zero: int
    dtype: str


class Constants:
    """Values of parameters: constants of a graph, and what is computed from them alone."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[str, Array] = {}
        self._fixed = set(graph.constants)
        for node in graph.nodes:
            if not node.op.on_host and self._fixed.issuperset(node.inputs):
                self._fixed.add(node.output)

    def get(self, name: str) -> Array | None:
        """The elements of ``name``; None if they depend on inputs."""
        if name not in self._fixed or name in self._known:
            return self._known.get(name)
        node = self._graph.producers.get(name)
        if node is None:
            return self._graph.constants[name]
        operands = {value: self.get(value) for value in node.inputs}
        given = {value: array for value, array in operands.items() if array is not None}
        with np.errstate(all="ignore"):  # what is too large is infinite, as in a run
            array = np.asarray(evaluate_node(node, given)).astype(self._graph.types[name].dtype)
        self._known[name] = array
        return array

    def whole_number(self, name: str) -> int | None:
        """A constant of one element that is an integer."""
        array = self.get(name)
        return None if array is None or array.size != 1 else _whole(float(array.reshape(())))


def quantisation_of(graph: Graph, node: Node, constants: Constants) -> Quantisation | None:
    """What ``node`` quantises; None where it does something else."""
    if not isinstance(node.op, CastOp) or node.op.dtype not in BYTES:
        return None
    zero, name = 0, node.inputs[0]
    moved = graph.producers.get(name)
    if moved is not None and moved.op == BinaryOp("add"):
        point = constants.whole_number(moved.inputs[1])
        if point is None:
            return None
        zero, name = point, moved.inputs[0]
    rounding = graph.producers.get(name)
    if rounding is None or rounding.op != UnaryOp("round"):
        return None
    return Quantisation(rounding.inputs[0], name, zero, node.op.dtype)


def whole_numbers(array: Array) -> NDArray[np.int64] | None:
    """``array`` as integers, if that is what it holds, none of them large."""
    wide: NDArray[Any] = np.asarray(array)
    if not (np.abs(wide) <= _LARGEST_ZERO).all() or (wide != np.rint(wide)).any():
        return None
    return wide.astype(np.int64)


def full_rank(shape: Shape, rank: int) -> Shape:
    """``shape`` with leading extents of 1."""
    return (*(1,) * (rank - len(shape)), *shape)


def _without_dimensions(array: NDArray[_Number]) -> NDArray[_Number]:
    return array.reshape(()) if array.size == 1 else array


def _transposed(array: NDArray[_Number], permutation: tuple[int, ...]) -> NDArray[_Number]:
    """``array``, which broadcasts to a value whose dimensions are permuted."""
    full = array.reshape(full_rank(array.shape, len(permutation)))
    return full.transpose(permutation) if array.shape else array


def _whole(number: float) -> int | None:
    return int(number) if number.is_integer() else None
