"""Powers and roots that norms of any order are made of."""

from __future__ import annotations

from autosched.graph.ops.elementwise import BinaryOp, Identity, UnaryOp
from autosched.onnx.importer.site import Site, UnsupportedError


def absolute_power(site: Site, data: str, order: int) -> str:
    """``|data| ** order`` for a positive integer."""
    if order < 1:
        raise UnsupportedError(f"a norm of order {order}")
    base = site.step(UnaryOp("abs"), [data]) if order % 2 else data
    power = base
    for _ in range(order - 1):
        power = site.step(BinaryOp("mul"), [power, base])
    return power


def root(site: Site, data: str, order: int) -> None:
    """Emit the ``order``-th root of non-negative ``data``."""
    if order == 1:
        site.emit(Identity(), [data])
    elif order == 2:
        site.emit(UnaryOp("sqrt"), [data])
    else:
        exponent = site.scalar("exponent", 1.0 / order, site.builder.types[data].dtype)
        site.emit(BinaryOp("pow"), [data, exponent])
