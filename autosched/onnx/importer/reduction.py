"""Importers of reductions, positions of extremes and running sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Literal

from autosched.graph.ops.base import Op, normalize_axis
from autosched.graph.ops.elementwise import BinaryOp, CastOp, Identity, UnaryOp
from autosched.graph.ops.reduce import ArgReduce, Cumulative, ReduceFunction, ReduceOp
from autosched.onnx.importer.site import Site, UnsupportedError
from sketch.lang.dtypes import BOOL, is_float, is_integer
from sketch.operators.scan import ScanFunction

_REDUCTIONS: Final[dict[str, ReduceFunction]] = {
    "ReduceL1": "l1",
    "ReduceL2": "l2",
    "ReduceLogSum": "log_sum",
    "ReduceLogSumExp": "log_sum_exp",
    "ReduceMax": "max",
    "ReduceMean": "mean",
    "ReduceMin": "min",
    "ReduceProd": "prod",
    "ReduceSum": "sum",
    "ReduceSumSquare": "sum_square",
}
# Over no axes; the others leave each element as it is.
_OF_EACH_ELEMENT: Final[Mapping[ReduceFunction, Op]] = {
    "l1": UnaryOp("abs"),
    "l2": UnaryOp("abs"),
    "log_sum": UnaryOp("log"),
    "sum_square": BinaryOp("mul"),
}
_LOGARITHMS: Final = ("log_sum", "log_sum_exp")
_WIDE: Final = "float64"  # in which logarithms of integers are computed, before they are cut off
_FLOATS_ONLY: Final = ("l2", "log_sum", "log_sum_exp", "mean")


def _import_reduce(function: ReduceFunction, site: Site) -> None:
    """Axes are an attribute up to opset 12 or 17, an input later."""
    dtype = site.type(0).dtype
    through = _WIDE if function in _LOGARITHMS and is_integer(dtype) else dtype
    if function in _FLOATS_ONLY and not is_float(through):
        raise UnsupportedError(f"it reduces {dtype}")
    rank = site.rank(0)
    axes = site.integers(1, "axes") or ()
    if rank == 0 or (not axes and site.attributes.get("noop_with_empty_axes", 0)):
        _emit_through(through, _OF_EACH_ELEMENT.get(function, Identity()), site)
        return
    normal = {normalize_axis(axis, rank) for axis in axes} or set(range(rank))
    keepdims = bool(site.attributes.get("keepdims", 1))
    _emit_through(through, ReduceOp(function, tuple(sorted(normal)), keepdims), site)


def _emit_through(dtype: str, op: Op, site: Site) -> None:
    """The operator on the data as they are, or in another dtype and back."""
    data, own = site.input(0), site.type(0).dtype
    wide = site.cast(data, dtype)
    inputs = [wide, wide] if isinstance(op, BinaryOp) else [wide]
    if dtype == own:
        site.emit(op, inputs)
    else:
        site.emit(CastOp(own), [site.step(op, inputs)])


IMPORT_REDUCE: Final[dict[str, Callable[[Site], None]]] = {
    name: partial(_import_reduce, function) for name, function in _REDUCTIONS.items()
}


def _import_arg(function: Literal["max", "min"], site: Site) -> None:
    """ArgMax and ArgMin."""
    if site.rank(0) == 0:
        raise UnsupportedError("its data has no dimensions")
    axis = normalize_axis(site.attributes.get("axis", 0), site.rank(0))
    keepdims = bool(site.attributes.get("keepdims", 1))
    last = bool(site.attributes.get("select_last_index", 0))
    site.emit(ArgReduce(function, axis, keepdims, last), [site.input(0)])


def _import_cumulative(function: ScanFunction, site: Site) -> None:
    """CumSum and CumProd along a constant axis."""
    axis = site.constant(1)
    if axis is None or site.rank(0) == 0 or site.type(0).dtype == BOOL:
        raise UnsupportedError(f"running over {site.type(0)}")
    op = Cumulative(
        function,
        normalize_axis(int(axis.item()), site.rank(0)),
        bool(site.attributes.get("exclusive", 0)),
        bool(site.attributes.get("reverse", 0)),
    )
    site.emit(op, [site.input(0)])


IMPORT_POSITIONS: Final[dict[str, Callable[[Site], None]]] = {
    "ArgMax": partial(_import_arg, "max"),
    "ArgMin": partial(_import_arg, "min"),
    "CumProd": partial(_import_cumulative, "prod"),
    "CumSum": partial(_import_cumulative, "sum"),
}
