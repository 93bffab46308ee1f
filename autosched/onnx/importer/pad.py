"""Importer of Pad."""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ops.base import normalize_axis
from autosched.graph.ops.elementwise import Identity
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.shape import Pad
from autosched.onnx.importer.site import Site, UnsupportedError

_MODES: Final = ("constant", "edge", "reflect", "wrap")
_Amounts = list[tuple[int, int]]


def import_pad(site: Site) -> None:
    """Pad: amounts are attributes up to opset 10, inputs later; negative ones crop."""
    mode = site.attributes.get("mode", "constant")
    if mode not in _MODES:
        raise UnsupportedError(f"mode {mode!r}")
    amounts = _amounts(site)
    value = site.input(0)
    for axis, (low, high) in enumerate(amounts):
        extent = site.type(0).shape[axis]
        positions = np.arange(max(-low, 0), extent - max(-high, 0))
        if positions.size == 0:
            raise UnsupportedError(f"padding by {low} and {high} leaves nothing of {extent}")
        if mode != "constant":
            positions = _extended(positions, max(low, 0), max(high, 0), mode)
        if not np.array_equal(positions, np.arange(extent)):
            value = site.step(Gather(axis), [value, site.add_constant("positions", positions)])
    if mode != "constant":
        site.emit(Identity(), [value])
        return
    before = tuple(max(low, 0) for low, _ in amounts)
    after = tuple(max(high, 0) for _, high in amounts)
    site.emit(Pad(before, after, _fill(site)), [value])


def _amounts(site: Site) -> _Amounts:
    """Elements to add before and after every dimension."""
    rank = site.rank(0)
    pads = site.integers(1, "pads") or ()
    axes = [normalize_axis(axis, rank) for axis in site.integers(3, "axes") or range(rank)]
    if len(pads) != 2 * len(axes):
        raise UnsupportedError(f"{len(pads)} amounts for {len(axes)} axes")
    amounts = [(0, 0)] * rank
    for position, axis in enumerate(axes):
        amounts[axis] = (pads[position], pads[position + len(axes)])
    return amounts


def _extended(
    positions: NDArray[Any], low: int, high: int, mode: Literal["edge", "reflect", "wrap"]
) -> NDArray[Any]:
    return np.pad(positions, (low, high), mode=mode)


def _fill(site: Site) -> float | int | bool:
    array = site.constant(2)
    value = site.attributes.get("value", 0.0) if array is None else array.item()
    return float(value) if site.type(0).dtype.startswith(("float", "bfloat")) else int(value)
