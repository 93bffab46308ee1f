"""The ``Pad`` of host operators: onnx's own takes no negative pads, which remove elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from onnx.reference.op_run import OpRun


class Pad(OpRun):
    """Replaces onnx's implementation of the same name, of all versions."""

    op_domain: ClassVar[str] = ""

    def _run(
        self,
        data: Any,
        pads: Any = None,
        constant_value: Any = None,
        axes: Any = None,
        mode: str = "constant",
        value: Any = None,
        paddings: Any = None,
    ) -> tuple[Any, ...]:
        amounts = next(given for given in (pads, paddings) if given is not None)
        fill = next((given for given in (constant_value, value) if given is not None), 0)
        before, after = _by_axis([int(n) for n in amounts], axes, data.ndim)
        kept = tuple(map(_kept, before, after, data.shape))
        widths = [(max(b, 0), max(a, 0)) for b, a in zip(before, after, strict=True)]
        options = {"constant_values": fill} if mode == "constant" else {}
        return (np.pad(data[kept], widths, mode=mode, **options).astype(data.dtype),)  # type: ignore[call-overload]


def _kept(before: int, after: int, extent: int) -> slice:
    """The elements of an axis that negative pads leave."""
    start, stop = max(-before, 0), extent - max(-after, 0)
    if start > stop:
        raise ValueError(f"pads {before} and {after} remove more than the {extent} elements")
    return slice(start, stop)


def _by_axis(amounts: Sequence[int], axes: Any, rank: int) -> tuple[list[int], list[int]]:
    """What is added before and after each axis."""
    named = list(range(rank)) if axes is None else [int(axis) % rank for axis in axes]
    if len(amounts) != 2 * len(named):
        raise ValueError(f"{len(amounts)} pads for {len(named)} axes")
    before, after = [0] * rank, [0] * rank
    pairs = zip(amounts[: len(named)], amounts[len(named) :], strict=True)
    for axis, (first, last) in zip(named, pairs, strict=True):
        before[axis], after[axis] = first, last
    return before, after
