"""Converters of matrix products and attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from autosched.graph.ops.elementwise import BinaryOp, Where
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.movement import Expand, Triangle
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.ops.shape import Reshape, Transpose
from autosched.graph.ops.softmax import Softmax
from autosched.torch_frontend.aten.call import AtenCall, Converter
from sketch.lang.dtypes import is_float


def _addmm(call: AtenCall) -> str:
    """``bias + a @ b``: a dense layer; a bias that is no row is added afterwards."""
    if call["beta"] == 0:
        return _product_alone(call)
    call.require(call["beta"] == 1 and call["alpha"] == 1, "a scaled sum")
    data, weight = call.values("mat1", "mat2")
    bias = call.bias("self")
    if not bias or call.type_of(bias[0]).shape == call.type_of(weight).shape[1:]:
        return call.add(Dense(), data, weight, *bias)
    return call.add(BinaryOp("add"), call.add(Dense(), data, weight), *bias)


def _product_alone(call: AtenCall) -> str:
    """A factor of 0 leaves out what it multiplies, also what is no number."""
    found = call.add(Dense(), *call.values("mat1", "mat2"))
    scale = call["alpha"]
    return found if scale == 1 else call.add(BinaryOp("mul"), found, call.number(scale, call.dtype))


def _product(call: AtenCall) -> str:
    return call.add(MatMul(), *call.values("self", "mat2"))


def _batch_product(call: AtenCall) -> str:
    """Batches that were flattened for it stay as they were: views between products are kernels."""
    pair = call.values("self", "mat2")
    sources = [call.views.get(name, name) for name in pair]
    shapes = [call.type_of(name).shape for name in sources]
    kept = [call.type_of(name).shape[-2:] for name in pair]
    flattened = [shape[-2:] for shape in shapes] == kept and shapes[0][:-2] == shapes[1][:-2]
    if not flattened:
        return call.add(MatMul(), *pair)
    batch = call.type_of(pair[0]).shape[0]
    return call.add(Reshape((batch, kept[0][0], kept[1][1])), call.add(MatMul(), *sources))


def _baddbmm(call: AtenCall) -> str:
    call.require(call["beta"] == 1 and call["alpha"] == 1, "a scaled sum")
    first, second, addend = call.values("batch1", "batch2", "self")
    return call.add(BinaryOp("add"), call.add(MatMul(), first, second), addend)


def _attention(call: AtenCall) -> tuple[str | None, ...]:
    """``softmax(query @ key^T * scale + mask) @ value``, ``[batch, heads, length, size]`` each."""
    query, key, value = call.values("query", "key", "value")
    shapes = [call.type_of(name).shape for name in (query, key, value)]
    call.require({len(shape) for shape in shapes} == {4}, "attention that is not of batches")
    call.require(len({shape[0] for shape in shapes}) == 1, "attention of several batches")
    key, value = (_of_each_head(call, shared, shapes[0][1]) for shared in (key, value))
    call.require(is_float(call.dtype) and call["dropout_p"] == 0, "attention with dropout")
    given = call["scale"]
    scale = shapes[0][-1] ** -0.5 if given is None else given
    scaled = call.add(BinaryOp("mul"), query, call.number(scale, call.dtype))
    scores = call.add(MatMul(), scaled, call.add(Transpose((0, 1, 3, 2)), key))
    if call["is_causal"]:
        # Chosen, not added to: what is hidden may be NaN.
        scores = call.add(Triangle(upper=False, hidden=True), scores)
    if call["attn_mask"] is None:
        return call.add(MatMul(), call.add(Softmax(3), scores), value), None
    mask = call.operand("attn_mask", call.dtype)
    shares = call.add(Softmax(3), call.add(BinaryOp("add"), scores, mask))
    return call.add(MatMul(), _where_any_is_seen(call, mask, shares), value), None


def _of_each_head(call: AtenCall, shared: str, heads: int) -> str:
    """Keys or values, repeated for the heads of queries that share them."""
    batch, own, *rest = call.type_of(shared).shape
    if own == heads:
        return shared
    split = call.add(Reshape((batch, own, 1, *rest)), shared)
    repeated = call.add(Expand((batch, own, heads // own, *rest)), split)
    return call.add(Reshape((batch, heads, *rest)), repeated)


def _where_any_is_seen(call: AtenCall, mask: str, shares: str) -> str:
    """PyTorch's rows that see no key are 0, where a softmax has no value."""
    last = len(call.type_of(mask).shape) - 1
    most = call.add(ReduceOp("max", (last,), keepdims=True), mask)
    unseen = call.add(BinaryOp("eq"), most, call.number(-np.inf, call.dtype))
    return call.add(Where(), unseen, call.number(0.0, call.dtype), shares)


PRODUCTS: Final[Mapping[str, Converter]] = {
    "_scaled_dot_product_flash_attention_for_cpu.default": _attention,
    "addmm.default": _addmm,
    "baddbmm.default": _baddbmm,
    "bmm.default": _batch_product,
    "mm.default": _product,
}
