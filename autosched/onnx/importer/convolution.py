"""Importers of convolutions and transposed convolutions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from autosched.graph.errors import ModelImportError
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.conv_transpose import ConvTranspose
from autosched.onnx.importer.site import Site, UnsupportedError

SAME: Final = ("SAME_UPPER", "SAME_LOWER")
_Shape = tuple[int, ...]


def import_conv(site: Site) -> None:
    """Conv over one or more spatial dimensions."""
    conv = conv_of(site)
    _check_bias(site, site.type(1).shape[0])
    site.emit(conv, site.inputs())


def import_conv_transpose(site: Site) -> None:
    """ConvTranspose over one or more spatial dimensions; the output's shape may be prescribed."""
    spatial, kernel = _extents(site)
    strides, dilation = per_dimension(site, "strides"), per_dimension(site, "dilations")
    extra = tuple(site.attributes.get("output_padding") or (0,) * len(spatial))
    mode = site.attributes.get("auto_pad", "NOTSET")
    wanted = site.attributes.get("output_shape")
    parts = zip(spatial, kernel, strides, dilation, extra, strict=True)
    full = [(e - 1) * s + (k - 1) * d + 1 + more for e, k, s, d, more in parts]
    if wanted is None and mode in SAME:  # windows that are shorter than the stride end before it
        scaled = (extent * stride for extent, stride in zip(spatial, strides, strict=True))
        wanted = tuple(map(min, scaled, full))
    if wanted is None:
        padding = explicit_padding(site)
    else:
        target = tuple(wanted)[-len(spatial) :]  # some exporters list batch and channels, too
        totals = tuple(f - w for f, w in zip(full, target, strict=True))
        if any(total <= -stride for total, stride in zip(totals, strides, strict=True)):
            raise UnsupportedError(
                f"output_shape {target} does not belong to data of extents {spatial}"
            )
        padding = halves(tuple(max(t, 0) for t in totals), larger_last=mode == "SAME_UPPER")
        extra = tuple(more - min(t, 0) for more, t in zip(extra, totals, strict=True))
    _check_bias(site, site.type(1).shape[1] * _groups(site))
    op = ConvTranspose(strides, padding, dilation, _groups(site), output_padding=extra)
    site.emit(op, site.inputs())


def conv_of(site: Site, weight: int = 1) -> Conv:
    """The convolution of input 0 with input ``weight``."""
    spatial, kernel = _extents(site, weight)
    strides, dilation = per_dimension(site, "strides"), per_dimension(site, "dilations")
    return Conv(strides, window_padding(site, spatial, kernel), dilation, _groups(site))


def window_padding(site: Site, spatial: _Shape, kernel: _Shape) -> _Shape:
    """All low sides, then all high sides: as given, or for ceil(extent / stride) windows."""
    mode = site.attributes.get("auto_pad", "NOTSET")
    if mode not in SAME:
        return explicit_padding(site)
    strides, dilation = per_dimension(site, "strides"), per_dimension(site, "dilations")
    totals = same_totals(spatial, kernel, strides, dilation)
    return halves(tuple(max(t, 0) for t in totals), larger_last=mode == "SAME_UPPER")


def same_totals(spatial: _Shape, kernel: _Shape, strides: _Shape, dilation: _Shape) -> _Shape:
    """Padding of both sides that makes ceil(extent / stride) windows; negative where windows that
    are shorter than the stride leave elements at the end.

    Args:
        spatial: extents of the data.
        kernel: of the windows.
        strides: of the windows.
        dilation: distance of the elements of a window.
    """
    parts = zip(spatial, kernel, strides, dilation, strict=True)
    return tuple((-(-e // s) - 1) * s + (k - 1) * d + 1 - e for e, k, s, d in parts)


def per_dimension(site: Site, attribute: str) -> _Shape:
    """An attribute with one number for each spatial dimension of input 0; ones by default."""
    values = site.attributes.get(attribute) or (1,) * (site.rank(0) - 2)
    return tuple(int(value) for value in values)


def explicit_padding(site: Site) -> _Shape:
    """All low sides, then all high sides, for the modes NOTSET and VALID."""
    pads = site.attributes.get("pads")
    if not pads or site.attributes.get("auto_pad", "NOTSET") == "VALID":
        return (0,) * (2 * (site.rank(0) - 2))
    return tuple(int(pad) for pad in pads)


def halves(totals: _Shape, larger_last: bool) -> _Shape:
    """Each total in two, all low sides first; the larger half at the high side, or the low one."""
    small = tuple(total // 2 for total in totals)
    large = tuple(total - total // 2 for total in totals)
    return (*small, *large) if larger_last else (*large, *small)


def _extents(site: Site, weight: int = 1) -> tuple[_Shape, _Shape]:
    """Spatial extents of data and weight."""
    if site.rank(0) < 3:
        raise UnsupportedError(f"its data has {site.rank(0)} dimensions, not 3 or more")
    return site.type(0).shape[2:], site.type(weight).shape[2:]


def _check_bias(site: Site, channels: int) -> None:
    """Raise ModelImportError for a bias that no evaluator takes."""
    if site.has(2) and site.type(2).shape != (channels,):
        raise ModelImportError(
            f"the bias has shape {list(site.type(2).shape)}, not [{channels}]",
            f"node {site.label} ({site.node.op_type})",
            "give it one number for each channel of the result",
        )


def _groups(site: Site) -> int:
    return int(site.attributes.get("group", 1))


IMPORT_CONVOLUTION: Final[Mapping[str, Callable[[Site], None]]] = {
    "Conv": import_conv,
    "ConvTranspose": import_conv_transpose,
}
