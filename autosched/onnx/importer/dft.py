"""Importer of DFT: a product with the matrix of sines and cosines."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ops.base import normalize_axis
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.shape import Reshape, Transpose
from autosched.onnx.importer.site import Site, UnsupportedError

_AXIS_INPUT: Final = 2  # since opset 20
_MOST_NUMBERS: Final = 1 << 22  # of a matrix


def import_dft(site: Site) -> None:
    """DFT of real or complex numbers along one axis, of a length for which the matrix is small."""
    shape, dtype = site.type(0).shape, site.type(0).dtype
    rank, parts = len(shape), shape[-1]
    axis = _axis(site, rank)
    inverse, onesided = (bool(site.attributes.get(name, 0)) for name in ("inverse", "onesided"))
    given = site.constant(1)
    length = shape[axis] if given is None else int(given.item())
    if axis == rank - 1 or (inverse and onesided) or dtype not in ("float32", "float64"):
        raise UnsupportedError(f"{dtype} {shape} along dimension {axis}")
    read = min(length, shape[axis])
    results = length // 2 + 1 if onesided else length
    check_matrix(read * parts * results * 2)
    data = site.input(0)
    if read < shape[axis]:
        stop = tuple(read if d == axis else n for d, n in enumerate(shape))
        data = site.step(Slice((0,) * rank, stop, (1,) * rank), [data])
    order = [d for d in range(rank) if d not in (axis, rank - 1)]
    lead = tuple(shape[d] for d in order)
    moved = site.step(Transpose((*order, axis, rank - 1)), [data])
    rows = site.step(Reshape((*lead, read * parts)), [moved])
    matrix = waves(read, length, results, inverse)[:, :parts]
    weight = matrix.reshape(read * parts, results * 2).astype(dtype)
    product = site.step(MatMul(), [rows, site.add_constant("waves", weight)])
    found = site.step(Reshape((*lead, results, 2)), [product])
    back = np.argsort((*order, axis, rank - 1))
    site.emit(Transpose(tuple(int(d) for d in back)), [found])


def _axis(site: Site, rank: int) -> int:
    """Of opset 17 an attribute, of opset 20 an input."""
    if site.has(_AXIS_INPUT):
        axis = site.constant(_AXIS_INPUT)
        assert axis is not None  # it is given
        return normalize_axis(int(axis.item()), rank)
    return normalize_axis(site.attributes.get("axis", 1 if site.opset < 20 else -2), rank)


def check_matrix(numbers: int) -> None:
    """Raise UnsupportedError for a matrix of more ``numbers`` than a product is worth."""
    if numbers > _MOST_NUMBERS:
        raise UnsupportedError(f"a matrix of {numbers:,} numbers would be too large")


def waves(read: int, length: int, results: int, inverse: bool) -> NDArray[Any]:
    """What a real and an imaginary part add to those of each result: ``[read, 2, results, 2]``.

    Args:
        read: how many numbers are transformed; the others are zeros.
        length: of the transform.
        results: how many of its results are wanted, from the first on.
        inverse: whether it is the inverse one.
    """
    steps = np.outer(np.arange(read), np.arange(results)) % length
    angle = 2 * np.pi * steps / length
    cosine, sine = np.cos(angle), np.sin(angle) * (1 if inverse else -1)
    pairs = np.stack([np.stack([cosine, sine], -1), np.stack([-sine, cosine], -1)], 1)
    return pairs / (length if inverse else 1)
