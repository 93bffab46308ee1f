"""Discrete Fourier transforms of rows as products with sines and cosines.

A short transform is one product with a matrix.  A long one, of ``n = p q`` numbers, is made of
transforms of ``p`` and of ``q`` numbers (Cooley and Tukey, 1965), with one product for each:

    number j = q a + b, result k = c + p d,    w = exp(-2 pi i / n)

    S[b, c] = sum over a of x[q a + b] w^(q a c + b c)        a matrix for each b
    X[c + p d] = sum over b of S[b, c] w^(p b d)              one matrix for all c

Both parts of a complex number are rows of their own between the products, so that lanes of all
products are neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.shape import Pad, Reshape, Transpose
from autosched.onnx.importer.movement import slice_of
from autosched.onnx.importer.site import Site, UnsupportedError

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
        results: how many of its results are wanted, from the first on.
        parts: 1: numbers are real; 2: a real and an imaginary part.
        inverse: whether it is the inverse one.
        window: what numbers are multiplied with first, ``[read]``; None: nothing.
    """

    read: int
    length: int
    results: int
    parts: int
    inverse: bool = False
    window: NDArray[Any] | None = None

    def wave(self, turns: NDArray[Any]) -> NDArray[np.complex128]:
        """``exp`` of so many turns of the length."""
        angle = 2 * np.pi * (turns % self.length) / self.length
        return np.cos(angle) + (1j if self.inverse else -1j) * np.sin(angle)

    def factors(self) -> NDArray[Any]:
        """What numbers are multiplied with, ``[read]``."""
        scale = 1 / self.length if self.inverse else 1.0
        ones = np.ones(self.read) if self.window is None else self.window.astype(np.float64)
        return ones * scale


def transform_rows(site: Site, rows: str, transform: Transform) -> str:
    """Transform rows ``[r, read, parts]`` into ``[r, results, 2]``; returns the name of the result.

    Raises:
        UnsupportedError: it is so long that the matrices would be too large.
    """
    short, numbers = _first_length(transform)
    if numbers > _MOST_NUMBERS:
        raise UnsupportedError(f"a matrix of {numbers:,} numbers would be too large")
    if short == transform.length:
        return _in_one_product(site, rows, transform)
    return _in_two_products(site, rows, transform, short)


def _first_length(transform: Transform) -> tuple[int, int]:
    """The length of the first transforms of several, or the whole length, where it is one product;
    and the numbers of the larger matrix.
    """
    length, parts = transform.length, transform.parts
    whole = transform.read * parts * transform.results * 2
    best = length, whole
    least = inf if whole > _MOST_NUMBERS else _WORTH * whole
    for short in (p for p in range(2, length) if length % p == 0):
        others = length // short
        wanted = -(-transform.results // short)
        lanes = -(-short // _LANES) * _LANES
        cost = length * parts * 2 * lanes + others * 2 * wanted * 2 * lanes
        numbers = max(length * parts * 2 * short, others * 2 * wanted * 2)
        if cost < least and numbers <= _MOST_NUMBERS:
            best, least = (short, numbers), cost
    return best


def _in_one_product(site: Site, rows: str, transform: Transform) -> str:
    count, read, parts = site.builder.types[rows].shape
    turns = np.outer(np.arange(read), np.arange(transform.results))
    waves = transform.wave(turns) * transform.factors()[:, None]
    matrix = np.stack(_multiplied(waves, parts, -1), 1)  # [read, parts, results, 2]
    flat = site.step(Reshape((count, read * parts)), [rows])
    weight = _constant(site, "waves", matrix.reshape(read * parts, -1), rows)
    product = site.step(MatMul(), [flat, weight])
    return site.step(Reshape((count, transform.results, 2)), [product])


def _in_two_products(site: Site, rows: str, transform: Transform, short: int) -> str:
    count, read, parts = site.builder.types[rows].shape
    length, others = transform.length, transform.length // short
    wanted = -(-transform.results // short)
    if read < length:
        rows = site.step(Pad((0, 0, 0), (0, length - read, 0)), [rows])
    b, a, c = np.ogrid[:others, :short, :short]
    factors = np.pad(transform.factors(), (0, length - read)).reshape(short, others).T[..., None]
    first = np.stack(_multiplied(transform.wave(others * a * c + b * c) * factors, parts, -2), 2)
    grid = site.step(Reshape((count, short, others, parts)), [rows])
    weight = _constant(site, "first", first.reshape(others, short, parts, 2 * short), rows)
    sums = site.step(Einsum(("labp", "bapk"), "lbk"), [grid, weight])
    b, d = np.ogrid[:others, :wanted]
    second = np.stack(_multiplied(transform.wave(short * b * d), 2, -1), 1)
    weight = _constant(site, "second", second.reshape(others * 2, wanted * 2), rows)
    lines = site.step(Reshape((count, others * 2, short)), [sums])
    found = site.step(Einsum(("lbc", "bd"), "ldc"), [lines, weight])
    found = site.step(Reshape((count, wanted, 2, short)), [found])
    found = site.step(Transpose((0, 1, 3, 2)), [found])
    found = site.step(Reshape((count, wanted * short, 2)), [found])
    if wanted * short == transform.results:
        return found
    return site.step(slice_of([(0, count, 1), (0, transform.results, 1), (0, 2, 1)]), [found])


def _multiplied(waves: NDArray[Any], parts: int, axis: int) -> list[NDArray[Any]]:
    """What each part of a number adds to both parts of its product with ``waves``, which are a new
    dimension ``axis`` of each.
    """
    real, imaginary = waves.real, waves.imag
    both = [np.stack([real, imaginary], axis), np.stack([-imaginary, real], axis)]
    return both[:parts]


def _constant(site: Site, role: str, array: NDArray[Any], like: str) -> str:
    return site.add_constant(role, array.astype(site.builder.types[like].dtype))
