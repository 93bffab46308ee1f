"""Importers of matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.shape import Reshape, Transpose
from autosched.onnx.importer.site import Site, UnsupportedError
from sketch.lang.dtypes import is_float


def import_matmul(site: Site) -> None:
    """MatMul: a vector on the left is a row, one on the right a column, both vanish again."""
    emit_product(site, site.input(0), site.input(1))


def emit_product(site: Site, lhs: str, rhs: str) -> None:
    """Emit ``lhs @ rhs`` as NumPy defines it for every pair of ranks."""
    types = site.builder.types
    shapes = types[lhs].shape, types[rhs].shape
    if not all(shapes):
        raise UnsupportedError("an operand has no dimensions")
    if min(map(len, shapes)) > 1:
        site.emit(MatMul(), [lhs, rhs])
        return
    row = lhs if len(shapes[0]) > 1 else site.step(Reshape((1, *shapes[0])), [lhs])
    column = rhs if len(shapes[1]) > 1 else site.step(Reshape((*shapes[1], 1)), [rhs])
    product = site.step(MatMul(), [row, column])
    whole = types[product].shape
    left = whole[:-2] if len(shapes[0]) == 1 else whole[:-1]
    right = () if len(shapes[1]) == 1 else whole[-1:]
    site.emit(Reshape((*left, *right)), [product])


def import_gemm(site: Site) -> None:
    """``alpha * A @ B + beta * C``: a dense layer; the scalars go into constants if possible."""
    if not is_float(site.type(0).dtype) and _factors(site) != (1.0, 1.0):
        raise UnsupportedError(f"scaled products of {site.type(0).dtype}")
    data = site.input(0)
    if site.attributes.get("transA", 0):
        data = site.step(Transpose((1, 0)), [data])
    alpha, beta = _factors(site)
    weight = _weight(site, alpha)
    if not site.has(2):
        site.emit(Dense(), [data, weight])
        return
    features = site.builder.types[weight].shape[1]
    array = site.plain_constant(2)
    if array is not None and _is_bias(array, features):
        scaled = np.broadcast_to(_scaled(array, beta).reshape(-1), (features,))
        site.emit(Dense(), [data, weight, site.add_constant("bias", scaled)])
        return
    addend = _times(site, site.input(2), beta)
    site.emit(BinaryOp("add"), [site.step(Dense(), [data, weight]), addend])


def _weight(site: Site, alpha: float) -> str:
    """``alpha * B`` as ``[k, n]``."""
    transposed = bool(site.attributes.get("transB", 0))
    array = site.plain_constant(1)
    if array is not None:
        oriented = array.T if transposed else array
        return site.add_constant("weight", _scaled(oriented, alpha))
    weight = site.input(1)
    if transposed:
        weight = site.step(Transpose((1, 0)), [weight])
    return _times(site, weight, alpha)


def _factors(site: Site) -> tuple[float, float]:
    """Alpha and beta."""
    return float(site.attributes.get("alpha", 1.0)), float(site.attributes.get("beta", 1.0))


def _is_bias(array: NDArray[Any], features: int) -> bool:
    """Whether C is one row: a scalar, ``[n]``, ``[1]`` or ``[1, n]``."""
    return array.size in (1, features) and array.shape[:-1] in ((), (1,))


def _scaled(array: NDArray[Any], factor: float) -> NDArray[Any]:
    if factor == 1.0:
        return array
    return (array.astype(np.float64) * factor).astype(array.dtype)


def _times(site: Site, value: str, factor: float) -> str:
    if factor == 1.0:
        return value
    scalar = site.scalar("factor", factor, site.builder.types[value].dtype)
    return site.step(BinaryOp("mul"), [value, scalar])
