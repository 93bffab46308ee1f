"""Proof that the stages that share a buffer write each of its elements exactly once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sketch.errors import ExpressionError
from sketch.lang.tensor import Compute, SharedBuffer, StoreMap, Tensor


def check_stores(outputs: Sequence[Tensor], stages: Sequence[Compute]) -> None:
    """Raise ExpressionError unless the stages of every buffer are disjoint and cover it."""
    written = {id(tensor.op) for tensor in outputs}
    buffers: dict[SharedBuffer, list[Compute]] = {}
    for op in stages:
        if op.store is None:
            continue
        if len(op.output_dtypes) > 1 or id(op) not in written:
            raise ExpressionError(
                "a store map needs a stage with one output that is an output of the program",
                f"stage {op.name}",
            )
        buffers.setdefault(op.store.buffer, []).append(op)
    for buffer, writers in buffers.items():
        _check_buffer(buffer, writers)


def _check_buffer(buffer: SharedBuffer, writers: Sequence[Compute]) -> None:
    where = f"buffer {buffer.name} written by {', '.join(op.name for op in writers)}"
    dtypes = {op.output_dtypes[0] for op in writers}
    if len(dtypes) > 1:
        raise ExpressionError(f"the writers disagree: dtypes {sorted(dtypes)}", where)
    size = math.prod(buffer.shape)
    total = sum(math.prod(op.shape) for op in writers)
    covered = np.zeros(size, dtype=bool)
    for op in writers:
        view = store_view(covered, op)
        if view.any() or not _is_injective(op):
            raise ExpressionError("two elements are stored to one place", where)
        view[...] = True
    if total != size:
        hole = int(np.argmin(covered))
        raise ExpressionError(
            f"{size - total} of {size} elements are never written, the first is {hole}", where
        )


def store_view(buffer: NDArray[np.generic], op: Compute) -> NDArray[np.generic]:
    """The elements of a flat buffer that ``op`` writes, as a view of the stage's shape."""
    store = store_of(op)
    size = buffer.itemsize
    return np.lib.stride_tricks.as_strided(
        buffer[store.offset :], op.shape, tuple(stride * size for stride in store.strides)
    )


def store_of(op: Compute) -> StoreMap:
    """The store map of a stage that has one."""
    assert op.store is not None
    return op.store


def _is_injective(op: Compute) -> bool:
    """Whether no two points share a place: by nested strides, else by enumeration."""
    steps = sorted(
        (abs(stride), extent)
        for stride, extent in zip(store_of(op).strides, op.shape, strict=True)
        if extent > 1
    )
    reach = 0
    for stride, extent in steps:
        if stride <= reach:
            return _is_injective_by_counting(op)
        reach += stride * (extent - 1)
    return True


def _is_injective_by_counting(op: Compute) -> bool:
    marks = np.zeros(math.prod(store_of(op).buffer.shape), dtype=bool)
    store_view(marks, op)[...] = True
    return int(marks.sum()) == math.prod(op.shape)
