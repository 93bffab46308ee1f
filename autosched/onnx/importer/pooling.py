"""Importers of pooling, over windows and over whole maps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Final

import numpy as np

from autosched.graph.max_positions import max_positions
from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.pooling import GlobalPool, Pool, PoolMode
from autosched.graph.ops.reduce import ReduceOp
from autosched.onnx.importer.convolution import SAME, per_dimension, same_totals, window_padding
from autosched.onnx.importer.power import absolute_power, root
from autosched.onnx.importer.site import Site, UnsupportedError
from autosched.onnx.importer.site_parts import SiteParts
from sketch.lang.dtypes import is_float


def _import_pool(mode: PoolMode, site: Site) -> None:
    """MaxPool, with the positions of the maxima where they are wanted, and AveragePool."""
    pool = _pool(site, mode)
    site.emit(pool, [site.input(0)])
    if site.wants(1):
        _emit_positions(site, pool)


def _emit_positions(site: Site, pool: Pool) -> None:
    """Those in the whole flattened data."""
    by_columns = bool(site.attributes.get("storage_order", 0))
    within = max_positions(SiteParts(site), site.input(0), pool, by_columns)
    batch, channels, *spatial = site.type(0).shape
    planes = np.arange(batch * channels) * prod(spatial)
    planes = planes.reshape(batch, channels, *(1 for _ in spatial))
    site.emit(BinaryOp("add"), [within, site.add_constant("planes", planes)], 1)


def _import_lp_pool(site: Site) -> None:
    """LpPool: the p-th root of sums of p-th powers."""
    order = int(site.attributes.get("p", 2))
    powers = absolute_power(site, site.input(0), order)
    total = site.step(_pool(site, "sum"), [powers])
    root(site, total, order)


def _import_global_pool(mode: str, site: Site) -> None:
    """GlobalMaxPool and GlobalAveragePool."""
    _expect_maps(site)
    site.emit(GlobalPool("max" if mode == "max" else "avg"), [site.input(0)])


def _import_global_lp_pool(site: Site) -> None:
    """GlobalLpPool: the p-norm of every map."""
    _expect_maps(site)
    order = int(site.attributes.get("p", 2))
    spatial = tuple(range(2, site.rank(0)))
    powers = absolute_power(site, site.input(0), order)
    root(site, site.step(ReduceOp("sum", spatial, True), [powers]), order)


IMPORT_POOLING: Final[dict[str, Callable[[Site], None]]] = {
    "MaxPool": partial(_import_pool, "max"),
    "AveragePool": partial(_import_pool, "avg"),
    "LpPool": _import_lp_pool,
    "GlobalMaxPool": partial(_import_global_pool, "max"),
    "GlobalAveragePool": partial(_import_global_pool, "avg"),
    "GlobalLpPool": _import_global_lp_pool,
}


def _pool(site: Site, mode: PoolMode) -> Pool:
    _expect_maps(site)
    if mode != "max" and not is_float(site.type(0).dtype):
        raise UnsupportedError(f"pooling of {site.type(0).dtype}")
    kernel = tuple(int(extent) for extent in site.attributes["kernel_shape"])
    strides, dilations = per_dimension(site, "strides"), per_dimension(site, "dilations")
    spatial = site.type(0).shape[2:]
    padding = window_padding(site, spatial, kernel)
    least = min(same_totals(spatial, kernel, strides, dilations), default=0)
    if site.attributes.get("auto_pad", "NOTSET") in SAME and least < -1:
        # Evaluators crop both sides, crop none or refuse.
        raise UnsupportedError(f"auto_pad for windows {kernel} shorter than strides {strides}")
    if min(padding) < 0:
        raise UnsupportedError(f"negative padding {padding}")
    reach = [dilation * (extent - 1) for extent, dilation in zip(kernel, dilations, strict=True)]
    if any(pad > limit for pad, limit in zip(padding, (*reach, *reach), strict=True)):
        raise UnsupportedError(f"padding {padding} is not smaller than the window")
    return Pool(
        mode,
        kernel,
        strides,
        padding,
        dilations,
        bool(site.attributes.get("ceil_mode", 0)),
        bool(site.attributes.get("count_include_pad", 0)),
    )


def _expect_maps(site: Site) -> None:
    if site.rank(0) < 3:
        raise UnsupportedError(f"its data has {site.rank(0)} dimensions")
