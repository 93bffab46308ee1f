"""Importer of DynamicQuantizeLinear: bytes whose scale and zero point depend on the data."""

from __future__ import annotations

from typing import Final

from autosched.graph.ops.elementwise import BinaryOp, CastOp, UnaryOp, Where
from autosched.graph.ops.reduce import ReduceOp
from autosched.onnx.importer.quantize import emit_quantised
from autosched.onnx.importer.site import Site

_STEPS: Final = 255.0


def import_dynamic_quantize(site: Site) -> None:
    """DynamicQuantizeLinear to uint8: the scale is such that all elements and 0 fit.

    A scale that would be 0 is 1 / 255, and a zero point that is no number 255, as in ONNX's
    reference; so data of zeros are zeros of a scale that can be divided by.
    """
    data = site.input(0)
    axes = tuple(range(site.rank(0)))
    zero, most = (site.scalar(*part, "float32") for part in (("zero", 0.0), ("most", _STEPS)))
    least = largest = data
    if axes:
        least, largest = (site.step(ReduceOp(f, axes), [data]) for f in ("min", "max"))
    low = site.step(BinaryOp("min"), [least, zero])
    high = site.step(BinaryOp("max"), [largest, zero])
    each = site.step(BinaryOp("div"), [site.step(BinaryOp("sub"), [high, low]), most])
    nothing = site.step(BinaryOp("eq"), [each, zero])
    scale = site.step(Where(), [nothing, site.scalar("least", 1 / _STEPS, "float32"), each])
    start = site.step(UnaryOp("neg"), [site.step(BinaryOp("div"), [low, scale])])
    inside = site.step(BinaryOp("le"), [start, most])
    point = site.step(UnaryOp("round"), [site.step(Where(), [inside, start, most])])
    if site.wants(1):
        site.emit(BinaryOp("add"), [scale, zero], 1)
    if site.wants(2):
        site.emit(CastOp("uint8"), [point], 2)
    emit_quantised(site, site.step(BinaryOp("div"), [data, scale]), point, "uint8")
