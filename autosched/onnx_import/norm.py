"""Importers of batch-norm, softmax and reductions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Final

from autosched.graph.ops.base import normalize_axis
from autosched.graph.ops.elementwise import Identity
from autosched.graph.ops.norm import BatchNorm
from autosched.graph.ops.reduce import Reduce, ReduceFunction
from autosched.graph.ops.shape import Reshape
from autosched.graph.ops.softmax import Softmax
from autosched.onnx_import.site import Site, UnsupportedError

_SOFTMAX_ALONG_ONE_AXIS: Final = 13  # earlier opsets flatten to a matrix first
_REDUCTIONS: Final[dict[str, ReduceFunction]] = {
    "ReduceMean": "mean",
    "ReduceSum": "sum",
    "ReduceMax": "max",
    "ReduceMin": "min",
}


def import_batch_norm(site: Site) -> None:
    """BatchNormalization at inference."""
    if site.attributes.get("training_mode", 0):
        raise UnsupportedError("training mode")
    if not site.attributes.get("spatial", 1):
        raise UnsupportedError("spatial=0")
    site.emit(BatchNorm(float(site.attributes.get("epsilon", 1e-5))), site.inputs())


def import_softmax(site: Site) -> None:
    """Softmax along one axis, or (before opset 13) over all dimensions from ``axis`` on."""
    kind = site.type(0)
    rank = len(kind.shape)
    if site.opset >= _SOFTMAX_ALONG_ONE_AXIS:
        axis = normalize_axis(site.attributes.get("axis", -1), rank)
        site.emit(Softmax(axis), [site.input(0)])
        return
    axis = normalize_axis(site.attributes.get("axis", 1), rank)
    matrix = (prod(kind.shape[:axis]), prod(kind.shape[axis:]))
    flat = site.step(Reshape(matrix), [site.input(0)])
    site.emit(Reshape(kind.shape), [site.step(Softmax(1), [flat])])


def _import_reduce(function: ReduceFunction, site: Site) -> None:
    rank = site.rank(0)
    axes = site.integers(1, "axes") or ()
    if not axes and site.attributes.get("noop_with_empty_axes", 0):
        site.emit(Identity(), [site.input(0)])
        return
    normal = {normalize_axis(axis, rank) for axis in axes} or set(range(rank))
    keepdims = bool(site.attributes.get("keepdims", 1))
    if not keepdims and len(normal) == rank:
        raise UnsupportedError("its result is a scalar without dimensions")
    site.emit(Reduce(function, tuple(sorted(normal)), keepdims), [site.input(0)])


IMPORT_REDUCE: Final[dict[str, Callable[[Site], None]]] = {
    name: partial(_import_reduce, function) for name, function in _REDUCTIONS.items()
}
