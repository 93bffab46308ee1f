"""Importers of softmax and its relatives."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Final, Literal

from autosched.graph.ops.base import normalize_axis
from autosched.graph.ops.shape import Reshape
from autosched.graph.ops.softmax import Hardmax, Softmax
from autosched.onnx.importer.site import Site

_ALONG_ONE_AXIS: Final = 13  # earlier opsets flatten to a matrix first


def _import_softmax(function: Literal["soft", "log", "hard"], site: Site) -> None:
    """Along one axis, or (before opset 13) over all dimensions from ``axis`` on."""
    kind = site.type(0)
    rank = len(kind.shape)
    if site.opset >= _ALONG_ONE_AXIS:
        axis = normalize_axis(site.attributes.get("axis", -1), rank)
        site.emit(_operator(function, axis), [site.input(0)])
        return
    axis = normalize_axis(site.attributes.get("axis", 1), rank)
    matrix = (prod(kind.shape[:axis]), prod(kind.shape[axis:]))
    flat = site.step(Reshape(matrix), [site.input(0)])
    site.emit(Reshape(kind.shape), [site.step(_operator(function, 1), [flat])])


def _operator(function: Literal["soft", "log", "hard"], axis: int) -> Softmax | Hardmax:
    return Hardmax(axis) if function == "hard" else Softmax(axis, function == "log")


IMPORT_SOFTMAX: Final[dict[str, Callable[[Site], None]]] = {
    "Hardmax": partial(_import_softmax, "hard"),
    "LogSoftmax": partial(_import_softmax, "log"),
    "Softmax": partial(_import_softmax, "soft"),
}
