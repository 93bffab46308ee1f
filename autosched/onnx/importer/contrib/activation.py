"""Importers of activation functions with a bias before them."""

from __future__ import annotations

from math import prod
from typing import Final

from autosched.graph.ops.activation import Activation, ActivationFunction
from autosched.graph.ops.base import normalize_axis
from autosched.graph.ops.softmax import Softmax
from autosched.onnx.importer.composer import Composer, Importer, check_attributes
from autosched.onnx.importer.site import Site, UnsupportedError


def _import_gelu(site: Site) -> None:
    """Gelu, exact."""
    _emit_gelu(site, "gelu", site.input(0))


def _import_bias_gelu(site: Site) -> None:
    """BiasGelu: the exact Gelu of a sum."""
    _emit_gelu(site, "gelu", Composer(site).sum(site.input(0), site.input(1)))


def _import_fast_gelu(site: Site) -> None:
    """FastGelu: Gelu by a hyperbolic tangent, of a sum if there is a bias."""
    make = Composer(site)
    _emit_gelu(site, "gelu_tanh", make.sum(site.input(0), make.given(1)))


def _emit_gelu(site: Site, function: ActivationFunction, value: str) -> None:
    check_attributes(site)
    site.emit(Activation(function), [value])


def _import_quick_gelu(site: Site) -> None:
    """QuickGelu: ``x * sigmoid(alpha * x)``."""
    check_attributes(site, ("alpha",))
    site.emit(Activation("swish", (float(site.attributes.get("alpha", 1.702)),)), [site.input(0)])


def _import_bias_split_gelu(site: Site) -> None:
    """BiasSplitGelu: of a sum, the left half times the Gelu of the right half."""
    check_attributes(site)
    make = Composer(site)
    whole = make.sum(site.input(0), site.input(1))
    *outer, extent = make.shape(whole)
    if extent % 2:
        raise UnsupportedError(f"halves of {extent} elements")
    left, right = (
        make.part(whole, len(outer), start, start + extent // 2) for start in (0, extent // 2)
    )
    make.emit(make.binary("mul", left, site.step(Activation("gelu"), [right])))


def _import_bias_add(site: Site) -> None:
    """BiasAdd: data, bias and residual."""
    check_attributes(site)
    make = Composer(site)
    make.emit(make.sum(*site.inputs()))


def _import_bias_softmax(site: Site) -> None:
    """BiasSoftmax: of a sum, over all dimensions from ``axis`` on together.

    ``is_inner_broadcast`` says which extents of the bias are 1: its shape says that, too.
    """
    check_attributes(site, ("axis", "is_inner_broadcast"))
    make = Composer(site)
    shape = site.type(0).shape
    axis = normalize_axis(int(site.attributes.get("axis", 1)), len(shape))
    total = make.sum(site.input(0), site.input(1))
    if make.shape(total) != shape:
        raise UnsupportedError(f"a bias {site.type(1)} for {site.type(0)}")
    rows = make.reshape(total, *shape[:axis], prod(shape[axis:]))
    make.emit(make.reshape(site.step(Softmax(axis), [rows]), *shape))


IMPORT_BIASED: Final[dict[str, Importer]] = {
    "BiasAdd": _import_bias_add,
    "BiasGelu": _import_bias_gelu,
    "BiasSoftmax": _import_bias_softmax,
    "BiasSplitGelu": _import_bias_split_gelu,
    "FastGelu": _import_fast_gelu,
    "Gelu": _import_gelu,
    "QuickGelu": _import_quick_gelu,
}
