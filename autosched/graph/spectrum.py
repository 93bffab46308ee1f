"""Discrete Fourier transforms of rows as products with sines and cosines.

A short transform is one product with a matrix.  A long one, of ``n = p q`` numbers, is made of
transforms of ``p`` and of ``q`` numbers (Cooley and Tukey, 1965), with one product for each:

    number j = q a + b, result k = c + p d,    w = exp(-2 pi i / n)

    S[b, c] = sum over a of x[q a + b] w^(q a c + b c)        a matrix for each b
    X[c + p d] = sum over b of S[b, c] w^(p b d)              one matrix for all c

Where the first number is not at 0, but at s, and the first result at f, powers are those of
``(q a + b + s) (c + f)`` and of ``p (b + s) d``.

Both parts of a complex number are rows of their own between the products, so that lanes of all
products are neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.appends import Appends
from autosched.graph.errors import GraphError
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.shape import Pad, Reshape, Transpose

_MOST_NUMBERS: Final = 1 << 22  # of a matrix
# The share of the multiplications from which on one product is left as it is: two pass their
# results through memory.
_WORTH: Final = 0.6
_LANES: Final = 8  # of vectors whose ends count as multiplications


@dataclass(frozen=True, slots=True)
class Transform:
    """A transform of rows.

    Attributes:
        read: numbers of a row; those that the length has more are zeros.
        length: of the transform.
        results: how many of its results are wanted, one after another.
        parts: 1: numbers are real; 2: a real and an imaginary part.
        inverse: whether it is the inverse one.
        window: what numbers are multiplied with first, ``[read]``; None: nothing.
        scale: what results are multiplied with.
        real: whether only the real parts of the results are wanted.
        start: the place of the first number in the signal, which repeats itself.
        first: the place of the first result in the spectrum, which repeats itself, too.
    """

    read: int
    length: int
    results: int
    parts: int
    inverse: bool = False
    window: NDArray[Any] | None = None
    scale: float = 1.0
    real: bool = False
    start: int = 0
    first: int = 0

    @property
    def found(self) -> int:
        """How many parts results have."""
        return 1 if self.real else 2

    def wave(self, turns: NDArray[Any]) -> NDArray[np.complex128]:
        """``exp`` of so many turns of the length; parts that are 0 are so exactly.

        Of real numbers the middle of a spectrum is real, too: its angle is 0 or pi, and would be
        of any sign if its imaginary part were a rounding error.
        """
        places = turns % self.length
        angle = 2 * np.pi * places / self.length
        sine = np.where(2 * places % self.length == 0, 0.0, np.sin(angle))
        quarter = (4 * places % self.length == 0) & (2 * places % self.length != 0)
        cosine = np.where(quarter, 0.0, np.cos(angle))
        return cosine + (1j if self.inverse else -1j) * sine

    def factors(self) -> NDArray[Any]:
        """What numbers are multiplied with, ``[read]``."""
        ones = np.ones(self.read) if self.window is None else self.window.astype(np.float64)
        return ones * self.scale


def transform_axis(graph: Appends, data: str, axis: int, transform: Transform) -> str:
    """Transform numbers along one dimension; those beyond ``read`` are not read.

    Args:
        graph: what operators are added to.
        data: the name of ``[..., parts]``.
        axis: which dimension, counted from the front; not the last one.
        transform: what is computed.

    Returns:
        the name of ``[..., 1 or 2]``.

    Raises:
        GraphError: as ``transform_rows``.
    """
    shape = graph.type_of(data).shape
    rank, read = len(shape), transform.read
    if read < shape[axis]:
        stop = tuple(read if d == axis else n for d, n in enumerate(shape))
        data = graph.add(Slice((0,) * rank, stop, (1,) * rank), data)
    order = [d for d in range(rank) if d not in (axis, rank - 1)]
    lead = tuple(shape[d] for d in order)
    moved = graph.add(Transpose((*order, axis, rank - 1)), data)
    rows = graph.add(Reshape((prod(lead), read, transform.parts)), moved)
    product = transform_rows(graph, rows, transform)
    found = graph.add(Reshape((*lead, transform.results, transform.found)), product)
    back = np.argsort((*order, axis, rank - 1))
    return graph.add(Transpose(tuple(int(d) for d in back)), found)


def transform_rows(graph: Appends, rows: str, transform: Transform) -> str:
    """Transform rows ``[r, read, parts]`` into ``[r, results, 1 or 2]``; returns the name of the
    result.

    Raises:
        GraphError: it is so long that the matrices would be too large.
    """
    short, numbers = _first_length(transform)
    if numbers > _MOST_NUMBERS:
        raise GraphError(f"a matrix of {numbers:,} numbers would be too large")
    if short == transform.length:
        return _in_one_product(graph, rows, transform)
    return _in_two_products(graph, rows, transform, short)


def _first_length(transform: Transform) -> tuple[int, int]:
    """The length of the first transforms of several, or the whole length, where it is one product;
    and the numbers of the larger matrix.
    """
    length, parts = transform.length, transform.parts
    found = transform.found
    whole = transform.read * parts * transform.results * found
    best = length, whole
    least = inf if whole > _MOST_NUMBERS else _WORTH * whole
    for short in (p for p in range(2, length) if length % p == 0):
        others = length // short
        wanted = -(-transform.results // short)
        lanes = -(-short // _LANES) * _LANES
        cost = length * parts * 2 * lanes + others * 2 * wanted * found * lanes
        numbers = max(length * parts * 2 * short, others * 2 * wanted * found)
        if cost < least and numbers <= _MOST_NUMBERS:
            best, least = (short, numbers), cost
    return best


def _in_one_product(graph: Appends, rows: str, transform: Transform) -> str:
    count, read, parts = graph.type_of(rows).shape
    turns = np.outer(
        np.arange(read) + transform.start, np.arange(transform.results) + transform.first
    )
    waves = transform.wave(turns) * transform.factors()[:, None]
    matrix = np.stack(_multiplied(waves, parts, -1), 1)  # [read, parts, results, 2]
    flat = graph.add(Reshape((count, read * parts)), rows)
    wanted = matrix[..., : transform.found].reshape(read * parts, -1)
    product = graph.add(MatMul(), flat, _constant(graph, wanted, rows))
    return graph.add(Reshape((count, transform.results, transform.found)), product)


def _in_two_products(graph: Appends, rows: str, transform: Transform, short: int) -> str:
    count, read, parts = graph.type_of(rows).shape
    length, others, found = transform.length, transform.length // short, transform.found
    wanted = -(-transform.results // short)
    if read < length:
        rows = graph.add(Pad((0, 0, 0), (0, length - read, 0)), rows)
    b, a, c = np.ogrid[:others, :short, :short]
    factors = np.pad(transform.factors(), (0, length - read)).reshape(short, others).T[..., None]
    turns = (others * a + b + transform.start) * (c + transform.first)
    first = np.stack(_multiplied(transform.wave(turns) * factors, parts, -2), 2)
    grid = graph.add(Reshape((count, short, others, parts)), rows)
    weight = _constant(graph, first.reshape(others, short, parts, 2 * short), rows)
    sums = graph.add(Einsum(("labp", "bapk"), "lbk"), grid, weight)
    b, d = np.ogrid[:others, :wanted]
    turns = short * (b + transform.start) * d
    second = np.stack(_multiplied(transform.wave(turns), 2, -1), 1)[..., :found]
    weight = _constant(graph, second.reshape(others * 2, wanted * found), rows)
    lines = graph.add(Reshape((count, others * 2, short)), sums)
    result = graph.add(Einsum(("lbc", "bd"), "ldc"), lines, weight)
    result = graph.add(Reshape((count, wanted, found, short)), result)
    result = graph.add(Transpose((0, 1, 3, 2)), result)
    result = graph.add(Reshape((count, wanted * short, found)), result)
    if wanted * short == transform.results:
        return result
    return graph.add(Slice((0, 0, 0), (count, transform.results, found), (1, 1, 1)), result)


def _multiplied(waves: NDArray[Any], parts: int, axis: int) -> list[NDArray[Any]]:
    """What each part of a number adds to both parts of its product with ``waves``, which are a new
    dimension ``axis`` of each.
    """
    real, imaginary = waves.real, waves.imag
    both = [np.stack([real, imaginary], axis), np.stack([-imaginary, real], axis)]
    return both[:parts]


def _constant(graph: Appends, array: NDArray[Any], like: str) -> str:
    return graph.array(array.astype(graph.type_of(like).dtype))
