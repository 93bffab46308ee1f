"""Importers of pooling."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.graph.ops.pooling import GlobalPool, Pool, PoolMode
from autosched.onnx_import.site import Site, UnsupportedError

_Padding = tuple[int, int, int, int]


def import_max_pool(site: Site) -> None:
    """MaxPool on 4-D data."""
    _import_pool(site, "max")


def import_average_pool(site: Site) -> None:
    """AveragePool on 4-D data."""
    _import_pool(site, "avg")


def import_global_average_pool(site: Site) -> None:
    """GlobalAveragePool on 4-D data."""
    _expect_images(site)
    site.emit(GlobalPool("avg"), [site.input(0)])


def import_global_max_pool(site: Site) -> None:
    """GlobalMaxPool on 4-D data."""
    _expect_images(site)
    site.emit(GlobalPool("max"), [site.input(0)])


def _import_pool(site: Site, mode: PoolMode) -> None:
    _expect_images(site)
    kernel = tuple(site.attributes["kernel_shape"])
    op = Pool(
        mode,
        (kernel[0], kernel[1]),
        _pair(site, "strides"),
        _padding(site, kernel),
        _pair(site, "dilations"),
        bool(site.attributes.get("ceil_mode", 0)),
        bool(site.attributes.get("count_include_pad", 0)),
    )
    site.emit(op, [site.input(0)])


def _expect_images(site: Site) -> None:
    if site.rank(0) != 4:
        raise UnsupportedError(f"its data has {site.rank(0)} dimensions, not 4")


def _pair(site: Site, attribute: str) -> tuple[int, int]:
    values = site.attributes.get(attribute) or (1, 1)
    return int(values[0]), int(values[1])


def _padding(site: Site, kernel: Sequence[int]) -> _Padding:
    """(top, left, bottom, right), computed for the SAME modes.

    Raises:
        UnsupportedError: padding is negative.
    """
    mode = site.attributes.get("auto_pad", "NOTSET")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        return _same_padding(site, kernel, upper=mode == "SAME_UPPER")
    pads = site.attributes.get("pads") or (0, 0, 0, 0)
    if mode == "VALID":
        return 0, 0, 0, 0
    if min(pads) < 0:
        raise UnsupportedError(f"negative padding {tuple(pads)}")
    return int(pads[0]), int(pads[1]), int(pads[2]), int(pads[3])


def _same_padding(site: Site, kernel: Sequence[int], upper: bool) -> _Padding:
    """Padding that makes ceil(extent / stride) windows; an odd one goes to the end if ``upper``."""
    low, high = [], []
    strides, dilation = _pair(site, "strides"), _pair(site, "dilations")
    for d, extent in enumerate(site.type(0).shape[2:]):
        windows = -(-extent // strides[d])
        reach = (kernel[d] - 1) * dilation[d] + 1
        total = max((windows - 1) * strides[d] + reach - extent, 0)
        small, large = total // 2, total - total // 2
        low.append(small if upper else large)
        high.append(large if upper else small)
    return low[0], low[1], high[0], high[1]
