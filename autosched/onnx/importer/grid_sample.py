"""Importer of GridSample: an image at points that the model computes.

The image is read at the neighbours of each point, all channels at once, and these are weighted by
how near they are. In cubic mode there are sixteen, else four or one.
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

_MODES: Final = {"bilinear": "linear", "bicubic": "cubic"}  # names before opset 20
_CUBIC: Final = -0.75  # the parameter of Keys' interpolation
_FLOAT: Final = "float32"
_IMAGE_RANK: Final = 4


def import_grid_sample(site: Site) -> None:
    """GridSample of images, in all modes."""
    given = site.attributes.get("mode", "linear")
    mode, outside = _MODES.get(given, given), site.attributes.get("padding_mode", "zeros")
    known = mode in ("nearest", "linear", "cubic") and outside in ("zeros", "border", "reflection")
    image = site.type(0)
    if not known or len(image.shape) != _IMAGE_RANK or image.dtype != _FLOAT:
        raise UnsupportedError(f"{mode} samples of {image}, {outside} outside")
    _Sampling(site, mode, outside).emit()


@dataclass(frozen=True, slots=True)
class _Neighbour:
    """One of the neighbours of a point in one dimension, each ``[n, points, 1]``.

    Attributes:
        index: int64, where it is read.
        weight: float32; None: it is the only one.
        met: bool, whether it is within the image; None: what is read elsewhere takes its place.
    """

    index: str
    weight: str | None
    met: str | None


class _Sampling:
    """The steps of one node."""

    def __init__(self, site: Site, mode: str, outside: str) -> None:
        self._site = site
        self._mode = mode
        self._outside = outside
        self._aligned = bool(site.attributes.get("align_corners", 0))
        self._batch, self._channels, *self._extents = site.type(0).shape  # height, width
        self._result = site.type(1).shape[1:3]
        self._points = self._result[0] * self._result[1]

    def emit(self) -> None:
        """Emit the result, NCHW."""
        height, width = self._extents
        data = self._site.step(Transpose((0, 2, 3, 1)), [self._site.input(0)])
        shape = (self._batch, height * width, self._channels)
        data = self._site.step(Reshape(shape), [data])
        rows, columns = (self._neighbours(axis) for axis in (0, 1))
        total = ""
        for row in rows:
            for column in columns:
                term = self._term(data, row, column)
                total = self._binary("add", total, term) if total else term
        grid = self._site.step(Reshape((self._batch, *self._result, self._channels)), [total])
        self._site.emit(Transpose((0, 3, 1, 2)), [grid])

    def _neighbours(self, axis: int) -> list[_Neighbour]:
        """What is read of rows (axis 0) or columns (1)."""
        place = self._place(axis)
        if self._mode == "nearest":
            return [self._neighbour(self._site.step(UnaryOp("round"), [place]), None, axis)]
        low = self._site.step(UnaryOp("floor"), [place])
        beyond = self._binary("sub", place, low)
        before = self._binary("sub", self._scalar("one", 1.0), beyond)
        first, weights = 0, [before, beyond]
        if self._mode == "cubic":
            first, weights = -1, [self._far(beyond), self._near(beyond)]
            weights += [self._near(before), self._far(before)]
        found = []
        for offset, weight in enumerate(weights, first):
            moved = self._binary("add", low, self._scalar("offset", float(offset)))
            found.append(self._neighbour(moved, weight, axis))
        return found

    def _place(self, axis: int) -> str:
        """Where the points lie: 0 is the first row or column."""
        extent, part = self._extents[axis], 1 - axis  # x comes first
        bounds = (self._batch, *self._result)
        cut = Slice((0, 0, 0, part), (*bounds, part + 1), (1,) * _IMAGE_RANK)
        given = self._site.step(cut, [self._site.input(1)])
        flat = self._site.step(Reshape((self._batch, self._points, 1)), [given])
        place = self._binary("add", flat, self._scalar("one", 1.0))  # rounded as onnx does
        if self._aligned:
            place = self._binary("mul", place, self._scalar("half", 0.5))
            place = self._binary("mul", place, self._scalar("last", extent - 1.0))
        else:
            place = self._binary("mul", place, self._scalar("extent", float(extent)))
            place = self._binary("sub", place, self._scalar("one", 1.0))
            place = self._binary("mul", place, self._scalar("half", 0.5))
        # of a point beyond the border, cubic interpolation reads the image in front of it, too
        inside = self._outside == "border" and self._mode != "cubic"
        return self._clipped(place, axis) if inside else place

    def _neighbour(self, place: str, weight: str | None, axis: int) -> _Neighbour:
        """``place``: a whole number."""
        if self._outside == "reflection":
            place = self._reflected(place, axis)
        inside = self._clipped(place, axis)
        met = self._binary("eq", inside, place) if self._outside == "zeros" else None
        return _Neighbour(self._site.step(CastOp("int64"), [inside]), weight, met)

    def _reflected(self, place: str, axis: int) -> str:
        """The place that a whole one has where the image and its mirror image alternate.

        The mirrors are the centres of the outermost pixels, or, if corners are not aligned, their
        outer edges.
        """
        edge = 0.0 if self._aligned else 0.5
        length = self._extents[axis] - 1 + 2 * edge
        if not length:
            return place
        moved = self._binary("add", place, self._scalar("edge", edge))
        positive = self._site.step(UnaryOp("abs"), [moved])
        period = self._scalar("period", 2 * length)
        phase = self._binary("trunc_mod", positive, period)
        back = self._binary("min", phase, self._binary("sub", period, phase))
        return self._binary("sub", back, self._scalar("edge", edge))

    def _clipped(self, place: str, axis: int) -> str:
        return self._site.step(Clip(0.0, self._extents[axis] - 1.0), [place])

    def _near(self, distance: str) -> str:
        """Weight of a pixel at up to 1 from a point: ``((a + 2) d - (a + 3)) d d + 1``."""
        slope = self._scaled(distance, _CUBIC + 2, -(_CUBIC + 3))
        square = self._binary("mul", distance, distance)
        return self._binary("add", self._binary("mul", slope, square), self._scalar("one", 1.0))

    def _far(self, distance: str) -> str:
        """Weight of the pixel behind one at ``d``: ``((a e - 5 a) e + 8 a) e - 4 a``, e = d + 1."""
        behind = self._binary("add", distance, self._scalar("one", 1.0))
        total = self._scaled(behind, _CUBIC, -5 * _CUBIC)
        for more in (8 * _CUBIC, -4 * _CUBIC):
            product = self._binary("mul", total, behind)
            total = self._binary("add", product, self._scalar("coefficient", more))
        return total

    def _scaled(self, value: str, factor: float, more: float) -> str:
        product = self._binary("mul", value, self._scalar("coefficient", factor))
        return self._binary("add", product, self._scalar("coefficient", more))

    def _term(self, data: str, row: _Neighbour, column: _Neighbour) -> str:
        """The image at a row and a column of each point, weighted: ``[n, points, c]``."""
        wide = self._site.add_constant("width", np.asarray(self._extents[1], np.int64))
        index = self._binary("add", self._binary("mul", row.index, wide), column.index)
        value = self._site.step(GatherPoints(1), [data, index])
        if row.weight is not None and column.weight is not None:
            weight = self._binary("mul", row.weight, column.weight)
            value = self._binary("mul", value, weight)
        if row.met is None or column.met is None:
            return value
        met = self._binary("and", row.met, column.met)
        return self._site.step(Where(), [met, value, self._scalar("zero", 0.0)])

    def _binary(self, function: BinaryFunction, lhs: str, rhs: str) -> str:
        return self._site.step(BinaryOp(function), [lhs, rhs])

    def _scalar(self, role: str, value: float) -> str:
        return self._site.scalar(role, value, _FLOAT)
