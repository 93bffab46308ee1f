"""Importers of matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ops.elementwise import Binary
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.shape import Transpose
from autosched.onnx_import.site import Site, UnsupportedError


def import_matmul(site: Site) -> None:
    """MatMul of operands of at least two dimensions."""
    if min(site.rank(0), site.rank(1)) < 2:
        raise UnsupportedError("an operand has fewer than 2 dimensions")
    site.emit(MatMul(), site.inputs())


def import_gemm(site: Site) -> None:
    """``alpha * A @ B + beta * C``: a dense layer; the scalars go into constants if possible."""
    data = site.input(0)
    if site.attributes.get("transA", 0):
        data = site.step(Transpose((1, 0)), [data])
    weight = _weight(site, float(site.attributes.get("alpha", 1.0)))
    if not site.has(2):
        site.emit(Dense(), [data, weight])
        return
    beta = float(site.attributes.get("beta", 1.0))
    features = site.builder.types[weight].shape[1]
    array = site.arrays.get(site.node.input[2])
    if array is not None and _is_bias(array, features):
        scaled = np.broadcast_to(_scaled(array, beta).reshape(-1), (features,))
        site.emit(Dense(), [data, weight, site.add_constant("bias", scaled)])
        return
    addend = _times(site, site.input(2), beta)
    site.emit(Binary("add"), [site.step(Dense(), [data, weight]), addend])


def _weight(site: Site, alpha: float) -> str:
    """``alpha * B`` as ``[k, n]``."""
    transposed = bool(site.attributes.get("transB", 0))
    array = site.arrays.get(site.node.input[1])
    if array is not None:
        oriented = array.T if transposed else array
        return site.add_constant("weight", _scaled(oriented, alpha))
    weight = site.input(1)
    if transposed:
        weight = site.step(Transpose((1, 0)), [weight])
    return _times(site, weight, alpha)


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
    scalar = site.add_constant("factor", np.full(1, factor, dtype=np.float32))
    return site.step(Binary("mul"), [value, scalar])
