"""Importer of GridSample: data at points that the model computes."""

from __future__ import annotations

from typing import Final, get_args

from autosched.graph.grid_samples import MOST_CUBIC, GridSampling, Mode, Outside, grid_samples
from autosched.graph.ops.elementwise import Identity
from autosched.onnx.importer.site import Site, UnsupportedError
from autosched.onnx.importer.site_parts import SiteParts

_MODES: Final = {"bilinear": "linear", "bicubic": "cubic"}  # names before opset 20
_FLOAT: Final = "float32"
_RANKS: Final = range(1, 4)


def import_grid_sample(site: Site) -> None:
    """GridSample of rows, images and volumes, in all modes; volumes not in cubic ones."""
    given = site.attributes.get("mode", "linear")
    mode, outside = _MODES.get(given, given), site.attributes.get("padding_mode", "zeros")
    known = mode in get_args(Mode) and outside in get_args(Outside)
    data, points = site.type(0), site.type(1)
    rank = len(data.shape) - 2
    many = mode == "cubic" and rank > MOST_CUBIC
    floats = data.dtype == points.dtype == _FLOAT
    if not known or rank not in _RANKS or many or not floats:
        raise UnsupportedError(f"{mode} samples of {data}, {outside} outside")
    how = GridSampling(mode, outside, bool(site.attributes.get("align_corners", 0)))
    value = grid_samples(SiteParts(site), site.input(0), site.input(1), how)
    site.emit(Identity(), [value])
