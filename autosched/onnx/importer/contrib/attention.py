"""Attention of heads that are given, in the operators of the standard's own form.

    softmax(scale * query @ transpose(key) + masks) @ value

Heads are ``[batch, heads, positions, size]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

import numpy as np

from autosched.graph.ops.elementwise import UnaryOp
from autosched.graph.ops.movement import Triangle
from autosched.graph.ops.softmax import Softmax
from autosched.onnx.importer.composer import Composer
from autosched.onnx.importer.site import UnsupportedError
from sketch.lang.dtypes import STORAGE_FLOATS

_FILTER: Final = -10000.0  # what onnxruntime adds to scores that a mask hides, by default
_LEAST: Final = {"float16": -65504.0}  # of types with a smaller range than float32


@dataclass(frozen=True, slots=True)
class Heads:
    """Query, key and value of every head."""

    query: str
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Scoring:
    """What happens to scores before their softmax.

    Attributes:
        scale: factor; 0 stands for one over the root of a head's size.
        added: values that are added; they broadcast to ``[batch, heads, rows, columns]``.
        softcap: scores are kept below it by a hyperbolic tangent; 0: they are not.
        past: columns before that of the first row, where later columns than the row's own are
            hidden; None: they are not.
        window: how many columns up to its own a row sees; None: all.
        seen: where this is false, scores are hidden.
        sink: a score of every head that takes part in the sum alone.
    """

    scale: float = 0.0
    added: tuple[str, ...] = ()
    softcap: float = 0.0
    past: int | None = None
    window: int | None = None
    seen: str | None = None
    sink: str | None = None


def split_heads(make: Composer, value: str, heads: int) -> str:
    """``[batch, positions, heads * size]`` as heads.

    Raises:
        UnsupportedError: it is no such value.
    """
    shape = make.shape(value)
    if len(shape) != 3 or heads < 1 or shape[2] % heads:
        raise UnsupportedError(f"{heads} heads of {make.dtype(value)}{list(shape)}")
    parts = make.reshape(value, *shape[:2], heads, shape[2] // heads)
    return make.transpose(parts, 0, 2, 1, 3)


def attended(make: Composer, heads: Heads, scoring: Scoring) -> str:
    """The values that every position attends to, ``[batch, positions, heads * size]``."""
    weighted = make.product(_probabilities(make, heads, scoring), heads.value)
    batch, count, rows, size = make.shape(weighted)
    return make.reshape(make.transpose(weighted, 0, 2, 1, 3), batch, rows, count * size)


def _probabilities(make: Composer, heads: Heads, scoring: Scoring) -> str:
    scores = _products(make, heads, scoring.scale or make.shape(heads.query)[3] ** -0.5)
    if scoring.softcap > 0:
        inside = make.scaled(scores, 1 / scoring.softcap)
        scores = make.scaled(make.site.step(UnaryOp("tanh"), [inside]), scoring.softcap)
    scores = _hidden(make, _with_added(make, scores, scoring.added), scoring)
    if scoring.sink is None:
        return make.site.step(Softmax(3), [scores])
    shape = make.shape(scores)
    sink = make.expand(make.cast(scoring.sink, make.dtype(scores)), *shape[:3], 1)
    whole = make.site.step(Softmax(3), [make.join(3, scores, sink)])
    return make.part(whole, 3, 0, shape[3])


def _products(make: Composer, heads: Heads, scale: float) -> str:
    """Queries times keys, scaled; of 16-bit floats before, which keeps products in their range."""
    before = make.dtype(heads.query) in STORAGE_FLOATS
    query = make.scaled(heads.query, scale) if before else heads.query
    scores = make.product(query, make.swapped(heads.key))
    return scores if before else make.scaled(scores, scale)


def _with_added(make: Composer, scores: str, added: tuple[str, ...]) -> str:
    for value in added:
        total = make.sum(scores, value)
        if make.shape(total) != make.shape(scores):
            raise UnsupportedError(
                f"masks {list(make.shape(value))} for scores {list(make.shape(scores))}"
            )
        scores = total
    return scores


def _hidden(make: Composer, scores: str, scoring: Scoring) -> str:
    """The scores, minus infinity where they are not seen."""
    rows, columns = make.shape(scores)[2:]
    past, window = scoring.past, scoring.window
    if past is not None and past + 1 < columns:
        scores = make.site.step(Triangle(False, past, hidden=True), [scores])
    if past is not None and window is not None and window < past + rows:
        scores = make.site.step(Triangle(True, past + 1 - window, hidden=True), [scores])
    if scoring.seen is not None:
        scores = make.where(scoring.seen, scores, make.number("hidden", -inf, scores))
    return scores


def padding_mask(make: Composer, index: int, columns: int, like: str) -> str | None:
    """What input ``index``, a mask in one of onnxruntime's forms, adds to scores.

    Whole numbers ``[batch, columns]`` or ``[batch, rows, columns]``, zeros where columns are
    hidden; ``[batch]``: how many columns are seen; ``[2 * batch]``: the ends of the columns that
    are seen, then their starts.

    Args:
        make: of the node.
        index: of the mask; it may not be given.
        columns: of the scores.
        like: a value of the dtype of the scores, its first extent the batch.

    Raises:
        UnsupportedError: another form.
    """
    mask = make.given(index)
    if mask is None:
        return None
    shape, batch = make.shape(mask), make.shape(like)[0]
    if shape in ((batch,), (2 * batch,)):
        seen = _seen_columns(make, mask, batch, columns)
    elif len(shape) in (2, 3) and (shape[0], shape[-1]) == (batch, columns):
        spread = (batch, *(1,) * (4 - len(shape)), *shape[1:])
        seen = make.binary("gt", make.reshape(mask, *spread), make.number("nothing", 0, mask))
    else:
        raise UnsupportedError(f"a mask {make.site.type(index)} for {columns} columns")
    dtype = make.dtype(like)
    least = max(
        float(make.site.attributes.get("mask_filter_value", _FILTER)),
        _LEAST.get(dtype, float(np.finfo(np.float32).min)),
    )
    return make.where(seen, make.number("seen", 0.0, like), make.number("filter", least, like))


def _seen_columns(make: Composer, bounds: str, batch: int, columns: int) -> str:
    """Whether each column is before the end of its batch element, and not before its start."""
    column = make.reshape(make.counted(columns, make.dtype(bounds)), 1, 1, 1, columns)
    ends = make.reshape(make.part(bounds, 0, 0, batch), batch, 1, 1, 1)
    seen = make.binary("lt", column, ends)
    if make.shape(bounds) == (batch,):
        return seen
    starts = make.reshape(make.part(bounds, 0, batch, 2 * batch), batch, 1, 1, 1)
    return make.binary("and", seen, make.binary("ge", column, starts))
