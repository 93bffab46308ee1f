"""Importer of GridSample: an image at points that the model computes.

The image is read at the neighbours of each point, all channels at once, and these are weighted by
how near they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from autosched.graph.ops.elementwise import BinaryFunction, BinaryOp, CastOp, Clip, UnaryOp, Where
from autosched.graph.ops.gather import GatherPoints
from autosched.graph.ops.movement import Slice
from autosched.graph.ops.shape import Reshape, Transpose
from autosched.onnx.importer.site import Site, UnsupportedError

_LINEAR: Final = ("bilinear", "linear")
_FLOAT: Final = "float32"
_IMAGE_RANK: Final = 4


def import_grid_sample(site: Site) -> None:
    """GridSample of images, bilinear or nearest, with zeros or the border outside."""
    mode = site.attributes.get("mode", "linear")
    outside = site.attributes.get("padding_mode", "zeros")
    known = mode in (*_LINEAR, "nearest") and outside in ("zeros", "border")
    image = site.type(0)
    if not known or len(image.shape) != _IMAGE_RANK or image.dtype != _FLOAT:
        raise UnsupportedError(f"{mode} samples of {image}, {outside} outside")
    _Sampling(site, outside == "border").emit(mode == "nearest")


@dataclass(frozen=True, slots=True)
class _Neighbour:
    """One of the two neighbours of a point in one dimension, each ``[n, points, 1]``.

    Attributes:
        place: float, a whole number.
        weight: 1 at the point, 0 at the next place.
    """

    place: str
    weight: str | None


class _Sampling:
    """The steps of one node."""

    def __init__(self, site: Site, border: bool) -> None:
        self._site = site
        self._border = border
        self._batch, self._channels, *self._extents = site.type(0).shape  # height, width
        self._result = site.type(1).shape[1:3]
        self._points = self._result[0] * self._result[1]

    def emit(self, nearest: bool) -> None:
        """Emit the result, NCHW."""
        rows, columns = (self._neighbours(axis, nearest) for axis in (0, 1))
        total = ""
        for row in rows:
            for column in columns:
                term = self._term(row, column)
                total = self._binary("add", total, term) if total else term
        shape = (self._batch, *self._result, self._channels)
        grid = self._site.step(Reshape(shape), [total])
        self._site.emit(Transpose((0, 3, 1, 2)), [grid])

    def _neighbours(self, axis: int, nearest: bool) -> list[_Neighbour]:
        """The places to read of rows (axis 0) or columns (1)."""
        place = self._place(axis)
        if nearest:
            return [_Neighbour(self._site.step(UnaryOp("round"), [place]), None)]
        low = self._site.step(UnaryOp("floor"), [place])
        one = self._scalar("one", 1.0)
        high = self._binary("add", low, one)
        beyond = self._binary("sub", place, low)
        return [_Neighbour(low, self._binary("sub", one, beyond)), _Neighbour(high, beyond)]

    def _place(self, axis: int) -> str:
        """Where the points lie: 0 is the first row or column."""
        extent, part = self._extents[axis], 1 - axis  # x comes first
        bounds = (self._batch, *self._result)
        cut = Slice((0, 0, 0, part), (*bounds, part + 1), (1,) * _IMAGE_RANK)
        given = self._site.step(cut, [self._site.input(1)])
        flat = self._site.step(Reshape((self._batch, self._points, 1)), [given])
        place = self._binary("add", flat, self._scalar("one", 1.0))  # rounded as onnx does
        if self._site.attributes.get("align_corners", 0):
            place = self._binary("mul", place, self._scalar("half", 0.5))
            place = self._binary("mul", place, self._scalar("last", extent - 1.0))
        else:
            place = self._binary("mul", place, self._scalar("extent", float(extent)))
            place = self._binary("sub", place, self._scalar("one", 1.0))
            place = self._binary("mul", place, self._scalar("half", 0.5))
        return self._site.step(Clip(0.0, extent - 1.0), [place]) if self._border else place

    def _term(self, row: _Neighbour, column: _Neighbour) -> str:
        """The image at a row and a column of each point, weighted: ``[n, points, c]``."""
        height, width = self._extents
        data = self._site.step(Transpose((0, 2, 3, 1)), [self._site.input(0)])
        shape = (self._batch, height * width, self._channels)
        data = self._site.step(Reshape(shape), [data])
        inside = [
            self._site.step(Clip(0.0, extent - 1.0), [each.place])
            for each, extent in ((row, height), (column, width))
        ]
        whole = [self._site.step(CastOp("int64"), [place]) for place in inside]
        wide = self._site.add_constant("width", np.asarray(width, np.int64))
        index = self._binary("add", self._binary("mul", whole[0], wide), whole[1])
        value = self._site.step(GatherPoints(1), [data, index])
        if row.weight is not None and column.weight is not None:
            weight = self._binary("mul", row.weight, column.weight)
            value = self._binary("mul", value, weight)
        if self._border:
            return value
        met = [
            self._binary("eq", place, each.place)
            for place, each in zip(inside, (row, column), strict=True)
        ]
        zero = self._scalar("zero", 0.0)
        return self._site.step(Where(), [self._binary("and", *met), value, zero])

    def _binary(self, function: BinaryFunction, lhs: str, rhs: str) -> str:
        return self._site.step(BinaryOp(function), [lhs, rhs])

    def _scalar(self, role: str, value: float) -> str:
        return self._site.scalar(role, value, _FLOAT)
