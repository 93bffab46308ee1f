"""Importers of operators that move data."""

from __future__ import annotations

from math import prod

from autosched.graph.ops.base import Shape, normalize_axis
from autosched.graph.ops.shape import Concat, Reshape, Transpose
from autosched.onnx.importer.site import Site, UnsupportedError


def import_reshape(site: Site) -> None:
    """Reshape to a constant shape; 0 copies an extent, -1 is what is left.

    Raises:
        UnsupportedError: an extent to copy is none of the input's.
    """
    wanted = site.constant(1)
    assert wanted is not None  # the checker has seen to it
    shape = site.type(0).shape
    extents = [int(extent) for extent in wanted.reshape(-1)]
    if not site.attributes.get("allowzero", 0):
        beyond = [d for d, extent in enumerate(extents) if extent == 0 and d >= len(shape)]
        if beyond:
            raise UnsupportedError(
                f"extent 0 of its new shape copies position {beyond[0]} of an input of rank "
                f"{len(shape)}"
            )
        extents = [shape[d] if extent == 0 else extent for d, extent in enumerate(extents)]
    if -1 in extents:
        extents[extents.index(-1)] = prod(shape) // max(-prod(extents), 1)
    site.emit(Reshape(tuple(extents)), [site.input(0)])


def import_flatten(site: Site) -> None:
    """Flatten to a matrix, split before ``axis``."""
    shape = site.type(0).shape
    axis = site.attributes.get("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    site.emit(Reshape((prod(shape[:axis]), prod(shape[axis:]))), [site.input(0)])


def import_squeeze(site: Site) -> None:
    """Squeeze the given dimensions, or all extents of 1."""
    shape = site.type(0).shape
    axes = site.integers(1, "axes")
    if axes is None:
        dropped = {d for d, extent in enumerate(shape) if extent == 1}
    else:
        dropped = {normalize_axis(axis, len(shape)) for axis in axes}
    _emit_view(site, tuple(n for d, n in enumerate(shape) if d not in dropped))


def import_unsqueeze(site: Site) -> None:
    """Insert extents of 1 at the given dimensions of the result."""
    shape = site.type(0).shape
    axes = site.integers(1, "axes") or ()
    rank = len(shape) + len(axes)
    inserted = {normalize_axis(axis, rank) for axis in axes}
    old = iter(shape)
    _emit_view(site, tuple(1 if d in inserted else next(old) for d in range(rank)))


def _emit_view(site: Site, shape: Shape) -> None:
    if not shape:
        raise UnsupportedError("its result is a scalar without dimensions")
    site.emit(Reshape(shape), [site.input(0)])


def import_transpose(site: Site) -> None:
    """Transpose; without ``perm`` it reverses the dimensions."""
    reverse = tuple(reversed(range(site.rank(0))))
    site.emit(Transpose(tuple(site.attributes.get("perm", reverse))), [site.input(0)])


def import_concat(site: Site) -> None:
    """Concat."""
    axis = normalize_axis(site.attributes["axis"], site.rank(0))
    site.emit(Concat(axis), site.inputs())
