"""Importers of normalisation with a sum before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from autosched.graph.ops.activation import Activation
from autosched.graph.ops.norm import GroupNormalize, Normalize
from autosched.onnx.importer.composer import Composer, Importer, applied, check_attributes
from autosched.onnx.importer.norm import IMPORT_NORM
from autosched.onnx.importer.site import Site, UnsupportedError

_EPSILON: Final = 1e-12  # of a layer norm that is fused
_GROUP_EPSILON: Final = 1e-5
_SUM: Final = 3  # position of the sum among the results


def _import_skip_layer_norm(site: Site) -> None:
    """SkipLayerNormalization: of data and residual, and of a bias if there is one."""
    parameters = [site.node.input[2], site.node.input[3] if site.has(3) else ""]
    _emit_norm_of_sum(site, "LayerNormalization", parameters, Composer(site).given(4))


def _import_skip_rms_norm(site: Site) -> None:
    """SkipSimplifiedLayerNormalization: as above, without means."""
    bias = Composer(site).given(3)
    _emit_norm_of_sum(site, "RMSNormalization", [site.node.input[2]], bias)


def _emit_norm_of_sum(
    site: Site, operator: str, parameters: Sequence[str], bias: str | None
) -> None:
    """Emit the norm of a sum, and the sum.

    Args:
        site: the node.
        operator: the norm in ONNX.
        parameters: of the norm.
        bias: a third addend, or None.
    """
    check_attributes(site, ("epsilon",))
    make = Composer(site)
    total = make.sum(site.input(0), site.input(1), bias)
    if make.shape(total) != site.type(0).shape:
        raise UnsupportedError(f"a residual {site.type(1)} for {site.type(0)}")
    make.emit(total, _SUM)
    make.emit(normalised(make, operator, [total, *parameters]))


def normalised(make: Composer, operator: str, inputs: Sequence[str]) -> str:
    """The norm along the last dimension, with the epsilon of the node.

    Args:
        make: of the node.
        operator: the norm in ONNX.
        inputs: of that operator.
    """
    attributes = {"epsilon": float(make.site.attributes.get("epsilon", _EPSILON)), "axis": -1}
    return applied(make.site, IMPORT_NORM[operator], operator, inputs, attributes)[0]


def _import_group_norm(site: Site) -> None:
    """GroupNorm and SkipGroupNorm: data, residual and bias; channels are last, or second."""
    check_attributes(site, ("epsilon", "groups", "channels_last", "activation"))
    make, shape = Composer(site), site.type(0).shape
    if len(shape) != 4:
        raise UnsupportedError(f"data {site.type(0)}")
    last = bool(site.attributes.get("channels_last", 1))
    total = site.input(0)
    if site.has(3):
        total = make.sum(total, _skip(make, last), _of_channels(make, 4, last))
        make.emit(total, 1)
    value = _grouped(make, make.cast(total, "float32"), last)
    scaled = make.binary("mul", value, _parameter(make, 1, last))
    result = make.binary("add", scaled, _parameter(make, 2, last))
    activation = int(site.attributes["activation"])
    if activation not in (0, 1):
        raise UnsupportedError(f"activation {activation}")
    if activation:
        result = site.step(Activation("swish", (1.0,)), [result])
    make.emit(make.cast(result, make.dtype(total)))


def _grouped(make: Composer, value: str, last: bool) -> str:
    """Normalised in groups of channels."""
    shape, groups = make.shape(value), int(make.site.attributes["groups"])
    channels = shape[3 if last else 1]
    if groups < 1 or channels % groups:
        raise UnsupportedError(f"{groups} groups of {channels} channels")
    epsilon = float(make.site.attributes.get("epsilon", _GROUP_EPSILON))
    if last:
        return make.site.step(GroupNormalize(groups, epsilon), [value])
    parts = make.reshape(value, shape[0], groups, channels // groups, *shape[2:])
    return make.reshape(make.site.step(Normalize((2, 3, 4), epsilon), [parts]), *shape)


def _skip(make: Composer, last: bool) -> str:
    """The residual: as the data, or one number for each channel of a picture."""
    value, rank = make.site.input(3), make.site.rank(3)
    if rank == 4:
        return value
    if rank != 2:
        raise UnsupportedError(f"a residual {make.site.type(3)}")
    batch, channels = make.shape(value)
    return make.reshape(value, batch, *((1, 1, channels) if last else (channels, 1, 1)))


def _of_channels(make: Composer, index: int, last: bool) -> str | None:
    """Input ``index``, a number for each channel."""
    value = make.given(index)
    if value is None or last:
        return value
    return make.reshape(value, *make.shape(value), 1, 1)


def _parameter(make: Composer, index: int, last: bool) -> str:
    value = _of_channels(make, index, last)
    assert value is not None  # the norm has two parameters
    return make.cast(value, "float32")


IMPORT_FUSED_NORM: Final[dict[str, Importer]] = {
    "GroupNorm": _import_group_norm,
    "LayerNormalization": IMPORT_NORM["LayerNormalization"],
    "SimplifiedLayerNormalization": IMPORT_NORM["RMSNormalization"],
    "SkipGroupNorm": _import_group_norm,
    "SkipLayerNormalization": _import_skip_layer_norm,
    "SkipSimplifiedLayerNormalization": _import_skip_rms_norm,
}
