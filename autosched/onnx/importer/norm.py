"""Importers of normalisation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from numpy.typing import NDArray

from autosched.graph.ops.base import Shape, normalize_axis
from autosched.graph.ops.elementwise import (
    BinaryFunction,
    BinaryOp,
    Identity,
    UnaryOp,
    Where,
)
from autosched.graph.ops.norm import BatchNorm, LocalResponseNorm, Normalize
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.ops.shape import Reshape
from autosched.onnx.importer.site import Site, UnsupportedError
from sketch.lang.dtypes import STORAGE_FLOATS

_FLOAT32: Final = 1  # onnx.TensorProto.FLOAT
# Of an instance norm: the input, what it does, and the number that does nothing.
_PARAMETERS: Final[tuple[tuple[int, BinaryFunction, float], ...]] = ((1, "mul", 1), (2, "add", 0))


def _import_batch_norm(site: Site) -> None:
    """BatchNormalization at inference."""
    if site.attributes.get("training_mode", 0):
        raise UnsupportedError("training mode")
    if not site.attributes.get("spatial", 1):
        raise UnsupportedError("spatial=0")
    if site.rank(0) < 2:
        raise UnsupportedError("its data has no channels")
    site.emit(BatchNorm(float(site.attributes.get("epsilon", 1e-5))), site.inputs())


def _import_layer_norm(site: Site) -> None:
    """LayerNormalization: statistics over all dimensions from ``axis`` on."""
    data, axes = site.input(0), _trailing_axes(site)
    _emit_statistics(site, data, axes)
    value = site.step(_normalize(site, axes), [data])
    _emit_affine(site, value, [site.input(i) for i in (1, 2) if site.has(i)])


def _import_rms_norm(site: Site) -> None:
    """RMSNormalization: as LayerNormalization, without means."""
    value = site.step(_normalize(site, _trailing_axes(site), centered=False), [site.input(0)])
    _emit_affine(site, value, [site.input(1)])


def _import_instance_norm(site: Site) -> None:
    """InstanceNormalization: statistics of every map.

    Torch's exporter writes its norms without parameters, and those of groups, as such a one with a
    scale of ones and a bias of zeros: what changes nothing is left out.
    """
    rank = site.rank(0)
    if rank < 3:
        raise UnsupportedError("its data has no spatial dimensions")
    value = site.step(_normalize(site, tuple(range(2, rank))), [site.input(0)])
    channels, dtype = (-1, *(1,) * (rank - 2)), site.builder.types[value].dtype
    for index, function, neutral in _PARAMETERS:
        if not _is_everywhere(site.plain_constant(index), neutral):
            parameter = site.cast(_viewed(site, index, channels), dtype)
            value = site.step(BinaryOp(function), [value, parameter])
    site.emit(Identity(), [value])


def _import_group_norm(site: Site) -> None:
    """GroupNormalization: statistics of groups of channels, a scale and a shift for each channel.

    As from opset 21 on: ``runtime_dialect`` rewrites the one before, which scales groups.
    """
    data = site.type(0)
    groups = int(site.attributes["num_groups"])
    split = (data.shape[0], groups, data.shape[1] // groups, *data.shape[2:])
    parts = site.step(Reshape(split), [site.input(0)])
    axes = tuple(range(2, len(split)))
    value = site.step(_normalize(site, axes), [parts])
    spatial = (1,) * (len(data.shape) - 2)
    whole = site.step(Reshape(data.shape), [value])
    _emit_affine(site, whole, [_viewed(site, i, (-1, *spatial)) for i in (1, 2)])


def _import_mean_variance_norm(site: Site) -> None:
    """MeanVarianceNormalization: ``(x - mean) / (deviation + 1e-9)``."""
    data, rank = site.input(0), site.rank(0)
    given = site.attributes.get("axes", (0, 2, 3))
    axes = tuple(sorted(normalize_axis(axis, rank) for axis in given))
    mean = site.step(ReduceOp("mean", axes, True), [data])
    centered = site.step(BinaryOp("sub"), [data, mean])
    square = site.step(BinaryOp("mul"), [centered, centered])
    deviation = site.step(UnaryOp("sqrt"), [site.step(ReduceOp("mean", axes, True), [square])])
    epsilon = site.scalar("epsilon", 1e-9, site.type(0).dtype)
    site.emit(BinaryOp("div"), [centered, site.step(BinaryOp("add"), [deviation, epsilon])])


def _import_lp_norm(site: Site) -> None:
    """LpNormalization: division by the norm, 0 where that is 0."""
    kind = site.type(0)
    axis = normalize_axis(site.attributes.get("axis", -1), len(kind.shape))
    data = site.input(0)
    function = ReduceOp("l1" if site.attributes.get("p", 2) == 1 else "l2", (axis,), True)
    norm = site.step(function, [data])
    # all elements are 0 where the norm is: any other divisor gives 0
    zero, one = site.scalar("zero", 0.0, kind.dtype), site.scalar("one", 1.0, kind.dtype)
    none = site.step(BinaryOp("eq"), [norm, zero])
    site.emit(BinaryOp("div"), [data, site.step(Where(), [none, one, norm])])


def _import_lrn(site: Site) -> None:
    """LRN, across channels."""
    op = LocalResponseNorm(
        int(site.attributes["size"]),
        float(site.attributes.get("alpha", 1e-4)),
        float(site.attributes.get("beta", 0.75)),
        float(site.attributes.get("bias", 1.0)),
    )
    site.emit(op, [site.input(0)])


IMPORT_NORM: Final[dict[str, Callable[[Site], None]]] = {
    "BatchNormalization": _import_batch_norm,
    "GroupNormalization": _import_group_norm,
    "InstanceNormalization": _import_instance_norm,
    "LRN": _import_lrn,
    "LayerNormalization": _import_layer_norm,
    "LpNormalization": _import_lp_norm,
    "MeanVarianceNormalization": _import_mean_variance_norm,
    "RMSNormalization": _import_rms_norm,
}


def _trailing_axes(site: Site) -> tuple[int, ...]:
    rank = site.rank(0)
    return tuple(range(normalize_axis(site.attributes.get("axis", -1), rank), rank))


def _normalize(site: Site, axes: tuple[int, ...], centered: bool = True) -> Normalize:
    if site.attributes.get("stash_type", _FLOAT32) != _FLOAT32:
        raise UnsupportedError(f"stash_type {site.attributes['stash_type']}")
    return Normalize(axes, float(site.attributes.get("epsilon", 1e-5)), centered)


def _emit_statistics(site: Site, data: str, axes: tuple[int, ...]) -> None:
    """The further outputs of a layer normalisation: mean, and 1 / standard deviation."""
    wanted = [index for index in (1, 2) if site.wants(index)]
    if not wanted:
        return
    if site.type(0).dtype in STORAGE_FLOATS:
        data = site.cast(data, "float32")
    mean = site.step(ReduceOp("mean", axes, True), [data])
    if 1 in wanted:
        site.emit(ReduceOp("mean", axes, True), [data], 1)
    if 2 in wanted:
        difference = site.step(BinaryOp("sub"), [data, mean])
        square = site.step(BinaryOp("mul"), [difference, difference])
        variance = site.step(ReduceOp("mean", axes, True), [square])
        epsilon = float(site.attributes.get("epsilon", 1e-5))
        shifted = [variance, site.scalar("epsilon", epsilon, site.builder.types[variance].dtype)]
        site.emit(UnaryOp("rsqrt"), [site.step(BinaryOp("add"), shifted)], 2)


def _viewed(site: Site, index: int, shape: Sequence[int]) -> str:
    """Input ``index`` with other extents; -1 stands for all of its elements."""
    extents: Shape = tuple(site.type(index).size if n == -1 else n for n in shape)
    return site.step(Reshape(extents), [site.input(index)])


def _emit_affine(site: Site, value: str, parameters: Sequence[str]) -> None:
    """Emit ``value * scale``, plus the bias if there are two parameters."""
    dtype = site.builder.types[value].dtype
    like = [site.cast(parameter, dtype) for parameter in parameters]
    if len(like) == 1:
        site.emit(BinaryOp("mul"), [value, like[0]])
        return
    scaled = site.step(BinaryOp("mul"), [value, like[0]])
    site.emit(BinaryOp("add"), [scaled, like[1]])


def _is_everywhere(array: NDArray[Any] | None, number: float) -> bool:
    return array is not None and bool((array == number).all())
