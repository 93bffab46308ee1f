"""Importer of GridSample: an image at points that the model computes.

The image is read at the neighbours of each point, all channels at once, and these are weighted by
how near they are. In cubic mode there are sixteen, else four or one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from autosched.graph.ops.elementwise import Clip, UnaryOp
from autosched.graph.ops.gather import GatherPoints
from autosched.graph.ops.shape import Transpose
from autosched.onnx.importer.composer import Composer
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
        self._make = Composer(site)
        self._mode = mode
        self._outside = outside
        self._aligned = bool(site.attributes.get("align_corners", 0))
        self._batch, self._channels, *self._extents = site.type(0).shape  # height, width
        self._result = site.type(1).shape[1:3]
        self._points = self._result[0] * self._result[1]

    def emit(self) -> None:
        """Emit the result, NCHW."""
        height, width = self._extents
        data = self._make.transpose(self._make.site.input(0), 0, 2, 3, 1)
        data = self._make.reshape(data, self._batch, height * width, self._channels)
        rows, columns = (self._neighbours(axis) for axis in (0, 1))
        total = self._make.sum(*(self._term(data, row, col) for row in rows for col in columns))
        grid = self._make.reshape(total, self._batch, *self._result, self._channels)
        self._make.site.emit(Transpose((0, 3, 1, 2)), [grid])

    def _neighbours(self, axis: int) -> list[_Neighbour]:
        """What is read of rows (axis 0) or columns (1)."""
        place = self._place(axis)
        if self._mode == "nearest":
            return [self._neighbour(self._make.site.step(UnaryOp("round"), [place]), None, axis)]
        low = self._make.site.step(UnaryOp("floor"), [place])
        beyond = self._make.binary("sub", place, low)
        before = self._make.binary("sub", self._make.number("one", 1.0, beyond), beyond)
        first, weights = 0, [before, beyond]
        if self._mode == "cubic":
            first, weights = -1, [self._far(beyond), self._near(beyond)]
            weights += [self._near(before), self._far(before)]
        found = []
        for offset, weight in enumerate(weights, first):
            moved = self._make.shifted(low, offset)
            found.append(self._neighbour(moved, weight, axis))
        return found

    def _place(self, axis: int) -> str:
        """Where the points lie: 0 is the first row or column."""
        extent, part = self._extents[axis], 1 - axis  # x comes first
        given = self._make.part(self._make.site.input(1), 3, part, part + 1)
        flat = self._make.reshape(given, self._batch, self._points, 1)
        place = self._make.shifted(flat, 1.0)  # rounded as onnx does
        if self._aligned:
            place = self._make.scaled(self._make.scaled(place, 0.5), extent - 1.0)
        else:
            place = self._make.shifted(self._make.scaled(place, extent), -1.0)
            place = self._make.scaled(place, 0.5)
        # of a point beyond the border, cubic interpolation reads the image in front of it, too
        inside = self._outside == "border" and self._mode != "cubic"
        return self._clipped(place, axis) if inside else place

    def _neighbour(self, place: str, weight: str | None, axis: int) -> _Neighbour:
        """``place``: a whole number."""
        if self._outside == "reflection":
            place = self._reflected(place, axis)
        inside = self._clipped(place, axis)
        met = self._make.binary("eq", inside, place) if self._outside == "zeros" else None
        return _Neighbour(self._make.cast(inside, "int64"), weight, met)

    def _reflected(self, place: str, axis: int) -> str:
        """The place that a whole one has where the image and its mirror image alternate.

        The mirrors are the centres of the outermost pixels, or, if corners are not aligned, their
        outer edges.
        """
        edge = 0.0 if self._aligned else 0.5
        length = self._extents[axis] - 1 + 2 * edge
        if not length:
            return place
        moved = self._make.shifted(place, edge)
        positive = self._make.site.step(UnaryOp("abs"), [moved])
        period = self._make.number("period", 2 * length, positive)
        phase = self._make.binary("trunc_mod", positive, period)
        back = self._make.binary("min", phase, self._make.binary("sub", period, phase))
        return self._make.shifted(back, -edge)

    def _clipped(self, place: str, axis: int) -> str:
        return self._make.site.step(Clip(0.0, self._extents[axis] - 1.0), [place])

    def _near(self, distance: str) -> str:
        """Weight of a pixel at up to 1 from a point: ``((a + 2) d - (a + 3)) d d + 1``."""
        slope = self._scaled(distance, _CUBIC + 2, -(_CUBIC + 3))
        square = self._make.binary("mul", distance, distance)
        return self._make.shifted(self._make.binary("mul", slope, square), 1.0)

    def _far(self, distance: str) -> str:
        """Weight of the pixel behind one at ``d``: ``((a e - 5 a) e + 8 a) e - 4 a``, e = d + 1."""
        behind = self._make.shifted(distance, 1.0)
        total = self._scaled(behind, _CUBIC, -5 * _CUBIC)
        for more in (8 * _CUBIC, -4 * _CUBIC):
            total = self._make.shifted(self._make.binary("mul", total, behind), more)
        return total

    def _scaled(self, value: str, factor: float, more: float) -> str:
        return self._make.shifted(self._make.scaled(value, factor), more)

    def _term(self, data: str, row: _Neighbour, column: _Neighbour) -> str:
        """The image at a row and a column of each point, weighted: ``[n, points, c]``."""
        wide = self._make.number("width", self._extents[1], row.index)
        index = self._make.binary("add", self._make.binary("mul", row.index, wide), column.index)
        value = self._make.site.step(GatherPoints(1), [data, index])
        if row.weight is not None and column.weight is not None:
            weight = self._make.binary("mul", row.weight, column.weight)
            value = self._make.binary("mul", value, weight)
        if row.met is None or column.met is None:
            return value
        met = self._make.binary("and", row.met, column.met)
        return self._make.where(met, value, self._make.number("zero", 0.0, value))
