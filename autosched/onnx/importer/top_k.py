"""Importer of TopK of short rows, or of few elements; others are left to the host."""

from __future__ import annotations

from autosched.graph.ops.base import normalize_axis
from autosched.graph.ops.elementwise import Identity
from autosched.graph.top_elements import has_top_elements, top_elements
from autosched.onnx.importer.site import Site, UnsupportedError
from autosched.onnx.importer.site_parts import SiteParts


def import_top_k(site: Site) -> None:
    """The largest elements, or the smallest ones, in order, and their positions."""
    shape = site.type(0).shape
    if not shape:
        raise UnsupportedError("its data has no dimensions")
    axis = normalize_axis(site.attributes.get("axis", -1), len(shape))
    count = _count(site)
    if not (0 < count <= shape[axis] and has_top_elements(site.type(0), axis, count)):
        raise UnsupportedError(f"{count} of {shape[axis]} elements of {site.type(0)}")
    largest = bool(site.attributes.get("largest", 1))
    results = top_elements(SiteParts(site), site.input(0), count, axis, largest)
    for index, value in enumerate(results):
        if site.wants(index):
            site.emit(Identity(), [value], index)


def _count(site: Site) -> int:
    """An attribute up to opset 9, an input later."""
    if "k" in site.attributes:
        return int(site.attributes["k"])
    given = site.constant(1)
    return 0 if given is None else int(given.reshape(-1)[0])
