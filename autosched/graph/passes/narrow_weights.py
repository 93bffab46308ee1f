"""Products of few rows with dequantised weights read the integers, not floats made of them.

A product of one row reads each weight once: it takes as long as its bytes take from memory.  So
bytes stay bytes, those of few bits in so few, and are converted in registers.  A product of many
rows waits for arithmetic, and conversions would be repeated for each of its tiles: it gets weights
of floats, made ahead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ir import Graph, Node
from autosched.graph.ops.elementwise import BinaryOp, CastOp
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.narrow import NarrowMatMul
from autosched.graph.ops.shape import Transpose
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.even_numbers import bytes_of
from autosched.graph.passes.rewriter import GraphRewriter
from autosched.graph.passes.scaled_integers import Constants, full_rank
from sketch.lang.dtypes import BYTES
from sketch.operators.narrow import (
    LEAST_BLOCK,
    NARROW_BITS,
    WORD_BITS,
    NarrowFormat,
    integers_of,
    words_of,
)

_FLOAT: Final = "float32"
_LARGEST_BYTE: Final = 128  # in size
# From so many rows on a product waits for arithmetic rather than for its weights: with 8 rows
# conversions in each tile cost what reading floats does, with 16 twice that.
_MANY_ROWS: Final = 12
# Floats are looked at that do not fit in the caches of the cores: those that do are read as fast as
# lanes convert bytes, or faster (256 x 1,024 in each step of an LSTM: 9 us, as bytes 14).
_LEAST_NUMBERS: Final = 1 << 20


def narrow_weights(graph: Graph) -> Graph:
    """``graph`` with the rewrites above; the graph itself where there are none."""
    if not any(isinstance(node.op, Dense | MatMul | NarrowMatMul | Gather) for node in graph.nodes):
        return graph
    rewriter = _NarrowWeights(graph)
    found = rewriter.run()
    return remove_dead_code(found) if rewriter.changed else graph


@dataclass(frozen=True, slots=True, eq=False)
class _Dequantised:
    """``(integers - zero) * scale``: int8 or uint8, and float32 of the same rank.

    Attributes:
        of_floats: whether the model has floats, which all data are multiplied by.
    """

    integers: NDArray[Any]
    zero: NDArray[np.float32]
    scale: NDArray[np.float32]
    of_floats: bool = False

    @property
    def wide(self) -> bool:
        """Whether parameters take more bytes than what they are for."""
        return self.zero.nbytes + self.scale.nbytes > self.integers.nbytes

    def transposed(self, axes: tuple[int, ...]) -> _Dequantised:
        integers, zero, scale = (a.transpose(axes) for a in (self.integers, self.zero, self.scale))
        return replace(self, integers=integers, zero=zero, scale=scale)


class _NarrowWeights(GraphRewriter):
    """The new graph while it grows."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.changed = False
        self._constants = Constants(graph)

    def convert(self, node: Node) -> None:
        """Emit ``node``, on the integers of its weights where that is faster."""
        match node.op:
            case Dense(None) | MatMul(None):
                self.changed |= self._product(node) or self._copied(node)
            case Gather(0):
                self.changed |= self._rows(node) or self._copied(node)
            case NarrowMatMul():
                self.changed |= self._widened(node) or self._copied(node)
            case _:
                self._copied(node)

    def _copied(self, node: Node) -> bool:
        self.builder.copy(node, node.inputs)
        return False

    def _product(self, node: Node) -> bool:
        data, weight, *bias = node.inputs
        kind = self.graph.types[data]
        few = kind.dtype == _FLOAT and prod(kind.shape[:-1]) < _MANY_ROWS
        if not few or data in self.graph.constants or len(self.shape(weight)) != 2:
            return False
        found = self._dequantised(weight)
        parts = None if found is None else _narrow(found)
        if parts is None:
            return False
        stored, *arrays = parts
        roles = ("words", "scale", "zero")
        names = [self._constant(node, r, a) for r, a in zip(roles, arrays, strict=False)]
        if not bias:
            self.builder.copy(node, [data, *names], NarrowMatMul(stored))
            return True
        total = self.builder.unique(f"{node.output}.product")
        self.builder.add(NarrowMatMul(stored), [data, *names], total, total, node.origins)
        self.builder.copy(node, [total, *bias], BinaryOp("add"))
        return True

    def _rows(self, node: Node) -> bool:
        """Rows of a table of bytes, dequantised when they are taken."""
        table, places = node.inputs
        found = self._dequantised(table)
        if found is None or places in self.graph.constants or found.wide:
            return False
        whole = self._add(Gather(0), (self._constant(node, "bytes", found.integers), places), node)
        value = self._add(CastOp(_FLOAT), (whole,), node)
        rank = len(self.shape(node.output)) - len(self.shape(table)) + 1
        if found.zero.any():
            zero = self._of_rows(node, found.zero, places, rank)
            value = self._add(BinaryOp("sub"), (value, zero), node)
        scale = self._of_rows(node, found.scale, places, rank)
        self.builder.copy(node, [value, scale], BinaryOp("mul"))
        return True

    def _of_rows(self, node: Node, array: NDArray[np.float32], places: str, rank: int) -> str:
        """A parameter of the rows at ``places``, of which there are ``rank`` dimensions."""
        if array.shape[0] > 1:
            return self._add(Gather(0), (self._constant(node, "rows", array), places), node)
        return self._constant(node, "all", array.reshape(*(1,) * rank, *array.shape[1:]))

    def _widened(self, node: Node) -> bool:
        """Many rows: a product with floats."""
        assert isinstance(node.op, NarrowMatMul)
        kind, (data, *names) = self.graph.types[node.inputs[0]], node.inputs
        if prod(kind.shape[:-1]) < _MANY_ROWS:
            return False
        words, scale, *zero = (self.graph.constants[name] for name in names)
        integers = integers_of(words.view(np.int32), node.op.stored)
        block = node.op.stored.block
        each = [np.repeat(a.astype(_FLOAT), block, axis=0)[: len(integers)] for a in (scale, *zero)]
        wide = integers.astype(_FLOAT)
        matrix = (wide - each[1] if zero else wide) * each[0]
        dtype = scale.dtype if kind.dtype != _FLOAT else _FLOAT
        weight = self._constant(node, "weight", matrix.astype(dtype))
        self.builder.copy(node, [data, weight], MatMul())
        return True

    def _dequantised(self, name: str) -> _Dequantised | None:
        """What ``name`` is made of, where that is bytes."""
        node = self.graph.producers.get(name)
        if node is None:
            return _even(self.graph.constants.get(name))
        match node.op:
            case Transpose(permutation):
                inner = self._dequantised(node.inputs[0])
                return None if inner is None else inner.transposed(permutation)
            case CastOp(dtype) if dtype == _FLOAT:
                given = self.graph.constants.get(node.inputs[0])
                if given is None or str(given.dtype) not in BYTES:
                    return self._dequantised(node.inputs[0])
                ones = np.ones((1,) * given.ndim, np.float32)
                return _Dequantised(given, np.zeros_like(ones), ones)
            case BinaryOp("sub" | "mul" as function):
                return self._moved(node, function)
            case _:
                return None

    def _moved(self, node: Node, function: str) -> _Dequantised | None:
        """The zero point, then the scale."""
        inner, array = self._dequantised(node.inputs[0]), self._constants.get(node.inputs[1])
        if inner is None or array is None or array.ndim > inner.integers.ndim:
            return None
        if self.shape(node.output) != inner.integers.shape or str(array.dtype) != _FLOAT:
            return None
        full = array.astype(np.float32).reshape(full_rank(array.shape, inner.integers.ndim))
        if not (inner.scale == 1).all():
            return None
        if function == "mul":
            return replace(inner, scale=full)
        return None if inner.zero.any() else replace(inner, zero=full)

    def _constant(self, node: Node, role: str, array: NDArray[Any]) -> str:
        name = self.builder.unique(f"{node.output}.{role}")
        return self.builder.constant(name, np.ascontiguousarray(array))

    def _add(self, op: Any, inputs: tuple[str, ...], node: Node) -> str:
        name = self.builder.unique(f"{node.output}.{op.kind}")
        return self.builder.add(op, inputs, name, name, node.origins)


def _even(matrix: NDArray[Any] | None) -> _Dequantised | None:
    """A matrix of floats that bytes hold to the last bit."""
    if matrix is None or matrix.ndim != 2 or matrix.size < _LEAST_NUMBERS:
        return None
    parts = bytes_of(matrix) if str(matrix.dtype) == _FLOAT else None
    return None if parts is None else _Dequantised(*parts, of_floats=True)


def _narrow(found: _Dequantised) -> tuple[Any, ...] | None:
    """Format, words, scale and zero, if there are any, of a matrix ``[k, n]``; None: its
    scales are not of blocks, or no numbers, or floats would become another sum.

    What a zero point, or raising integers in their word, adds is subtracted as a multiple of the
    sum of the data: infinite data would give NaN, and small columns the errors of large ones.
    """
    rows, columns = found.integers.shape
    parameters = [np.broadcast_to(a, (len(a), columns)) for a in (found.zero, found.scale)]
    block = _block(rows, parameters)
    if block is None or not all(np.isfinite(a).all() for a in parameters):
        return None
    if found.of_floats and found.integers.dtype == np.uint8:
        return None
    fewest = _fewest_bits(found.integers, NARROW_BITS[-1:] if found.of_floats else NARROW_BITS)
    if fewest is None:
        return None
    stored, shift = NarrowFormat(fewest[0], block), np.int16(fewest[1])
    signed = (found.integers.astype(np.int16) - shift).astype(np.int8)
    zero, scale = (np.broadcast_to(a, (rows, columns))[::block] for a in parameters)
    moved = zero - np.float32(shift)
    points = [_smallest(moved)] if moved.any() else []
    return (stored, words_of(signed, stored), scale, *points)


def _fewest_bits(integers: NDArray[Any], widths: Iterable[int]) -> tuple[int, int] | None:
    """The bits of the narrowest format that holds ``integers [k, n]`` less a shift, and that
    shift: 0, or half of what the bits can say where none is negative.  None: rows fill no words.
    """
    low, high = int(integers.min()), int(integers.max())
    for bits in widths:
        half = 1 << (bits - 1)
        shift = half if integers.dtype == np.uint8 else 0
        if len(integers) % (WORD_BITS // bits) == 0 and -half <= low - shift <= high - shift < half:
            return bits, shift
    return None


def _smallest(array: NDArray[np.float32]) -> NDArray[Any]:
    """``array`` as bytes where those are its numbers."""
    fits = (np.abs(array) <= _LARGEST_BYTE).all()
    small = array.astype(np.int8) if fits else array
    return small if np.array_equal(small, array) else array


def _block(rows: int, parameters: list[NDArray[np.float32]]) -> int | None:
    """The longest blocks of rows that share parameters; None: shorter than any format has."""
    block = max(LEAST_BLOCK, 1 << (rows - 1).bit_length())
    while block >= LEAST_BLOCK:
        if all(len(a) == 1 or _in_blocks(a, block) for a in parameters):
            return block
        block //= 2
    return None


def _in_blocks(array: NDArray[np.float32], block: int) -> bool:
    return np.array_equal(np.repeat(array[::block], block, axis=0)[: len(array)], array)
