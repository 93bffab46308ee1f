"""Importer of GroupQueryAttention: heads of queries that share keys and values, and caches."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from autosched.graph.ops.gather import GatherElements
from autosched.graph.ops.shape import Pad
from autosched.onnx.importer.composer import Composer, check_attributes, check_inputs
from autosched.onnx.importer.contrib.attention import Heads, Scoring, attended, split_heads
from autosched.onnx.importer.rotary import Rotation, angles_of_rows, rotated
from autosched.onnx.importer.site import Site, UnsupportedError

_TAKEN: Final = (
    "num_heads", "kv_num_heads", "scale", "softcap", "do_rotary", "rotary_interleaved",
    "local_window_size", "smooth_softmax", "qk_norm_epsilon",
)  # fmt: skip
_SEQUENCES, _TOTAL, _COSINE, _SINE, _POSITIONS, _BIAS, _SINK = 5, 6, 7, 8, 9, 10, 11


@dataclass(frozen=True, slots=True)
class _Step:
    """Where the positions of this call are in the sequences.

    Attributes:
        rows: positions of this call.
        columns: positions that the caches have afterwards.
        past: positions before; a number, or a value ``[batch]`` of integers.
        first: whether all sequences start here.
    """

    rows: int
    columns: int
    past: int | str
    first: bool = False


def import_group_query_attention(site: Site) -> None:
    """GroupQueryAttention, causal, of floats."""
    _check(site)
    make = Composer(site)
    shared = int(site.attributes["kv_num_heads"])
    query, key, value = _given_heads(make, shared)
    step = _step(make, make.shape(query)[0], make.shape(query)[2])
    if site.attributes.get("do_rotary", 0):
        rotation = _rotation(make, step)
        query, key = rotated(make, query, rotation), rotated(make, key, rotation)
    states = [_cached(make, index, new, step) for index, new in ((3, key), (4, value))]
    for index, state in enumerate(states, 1):
        make.emit(state, index)
    repeats = make.shape(query)[1] // shared
    heads = Heads(query, *(_repeated(make, state, repeats, step) for state in states))
    make.emit(attended(make, heads, _scoring(make, step)))


def _check(site: Site) -> None:
    """Refuse what is not imported."""
    check_attributes(
        site, _TAKEN, causal=1, qk_output=0, kv_cache_bit_width=0, sliding_window_cache=0,
        k_quant_type="NONE", v_quant_type="NONE",
    )  # fmt: skip
    check_inputs(site, k_scale=12, v_scale=13, q_norm_weight=14, k_norm_weight=15)
    if site.attributes.get("do_rotary", 0) and not (site.has(_COSINE) and site.has(_SINE)):
        raise UnsupportedError("do_rotary without cos_cache and sin_cache")
    if site.has(3) != site.has(4):
        raise UnsupportedError("past_key without past_value, or past_value without past_key")


def _given_heads(make: Composer, shared: int) -> tuple[str, str, str]:
    """Query, key and value of this call; all may be in the first input."""
    count, whole = int(make.site.attributes["num_heads"]), make.site.input(0)
    if shared < 1 or count % shared:
        raise UnsupportedError(f"num_heads {count} with kv_num_heads {shared}")
    if make.site.has(1):
        key, value = (split_heads(make, make.site.input(index), shared) for index in (1, 2))
        return split_heads(make, whole, count), key, value
    heads = split_heads(make, whole, count + 2 * shared)
    bounds = (0, count, count + shared, count + 2 * shared)
    query, key, value = (make.part(heads, 1, *bounds[n : n + 2]) for n in range(3))
    return query, key, value


def _step(make: Composer, batch: int, rows: int) -> _Step:
    """Where this call is.

    One sequence has the length that ``total_sequence_length`` says.  Several may be shorter, and
    caches that are longer than that may be filled up to anywhere: there ``seqlens_k`` says it.
    Where all positions are new, it is not read: what is behind the end of a sequence is anything.

    Raises:
        UnsupportedError: the number of positions is not known, or they are not in the caches.
    """
    site = make.site
    array = site.constant(_TOTAL)
    if array is None:
        raise UnsupportedError("no total_sequence_length")
    total, stored = int(array.reshape(-1)[0]), site.type(3).shape[2] if site.has(3) else 0
    columns = max(total, stored)
    if rows == total:
        return _Step(rows, columns, 0, first=True)
    if rows > total:
        raise UnsupportedError(f"{rows} new positions with total_sequence_length {total}")
    if stored < total - rows:
        raise UnsupportedError(f"{stored} positions of past_key where {total - rows} are past")
    past = _constant_past(site, rows, columns)
    if past is not None:
        return _Step(rows, columns, past)
    if batch == 1 and stored < total:
        return _Step(rows, columns, total - rows)
    lengths = make.reshape(site.input(_SEQUENCES), batch)
    return _Step(rows, columns, make.shifted(lengths, 1 - rows))


def _constant_past(site: Site, rows: int, columns: int) -> int | None:
    """Positions before this call, where ``seqlens_k`` is a constant with one length for all."""
    ends = site.arrays.get(site.node.input[_SEQUENCES])
    if ends is None or np.any(ends != ends.reshape(-1)[0]):
        return None
    end = int(ends.reshape(-1)[0]) + 1
    if not rows <= end <= columns:
        raise UnsupportedError(
            f"seqlens_k {end - 1}: sequences of {end} with {rows} new positions, in caches of "
            f"{columns}"
        )
    return end - rows


def _rotation(make: Composer, step: _Step) -> Rotation:
    tables = [make.site.input(index) for index in (_COSINE, _SINE)]
    count = 2 * make.shape(tables[0])[1]
    places = _places(make, step)
    if isinstance(places, int):
        rows = [make.part(table, 0, places, places + step.rows) for table in tables]
        angles = [make.reshape(row, 1, *make.shape(row)) for row in rows]
    else:
        angles = [make.rows(table, places) for table in tables]
    cosine, sine = (angles_of_rows(make, rows, 1) for rows in angles)
    interleaved = bool(make.site.attributes.get("rotary_interleaved", 0))
    return Rotation(cosine, sine, count, interleaved)


def _places(make: Composer, step: _Step) -> int | str:
    """Positions of the rows, ``[batch, rows]``, or the number that is that of the first one.

    Of positions that are given, onnxruntime reads the first one alone where sequences start.
    """
    given = make.given(_POSITIONS)
    if given is not None and not step.first:
        return given
    if given is not None:
        first = make.part(make.part(given, 0, 0, 1), 1, 0, 1)
    elif isinstance(step.past, int):
        return step.past
    else:
        first = make.reshape(step.past, *make.shape(step.past), 1)
    if step.rows == 1:
        return first
    return make.binary("add", first, make.counted(step.rows, make.dtype(first)))


def _cached(make: Composer, index: int, new: str, step: _Step) -> str:
    """The cache at input ``index`` with the new positions in it, ``[batch, heads, columns, size]``.

    What it has behind them stays as it is.
    """
    past = make.given(index)
    if not isinstance(step.past, int):
        assert past is not None  # without, no number of positions is data
        return _placed(make, _padded(make, past, 2, step.columns), new, step.past)
    parts, end = [new], step.past + step.rows
    if past is not None and step.past:
        parts.insert(0, make.part(past, 2, 0, step.past))
    if past is not None and make.shape(past)[2] > end:
        parts.append(make.part(past, 2, end, make.shape(past)[2]))
    return _padded(make, make.join(2, *parts), 2, step.columns)


def _placed(make: Composer, past: str, new: str, start: str) -> str:
    """The cache with new positions from ``start`` (of each batch element) on."""
    batch, heads, columns, size = make.shape(past)
    rows = make.shape(new)[2]
    column = make.reshape(make.counted(columns, make.dtype(start)), 1, 1, columns, 1)
    first = make.reshape(start, batch, 1, 1, 1)
    if rows == 1:
        return make.where(make.binary("eq", column, first), new, past)
    offset = make.binary("sub", column, first)
    inside = make.binary(
        "and",
        make.binary("ge", offset, make.number("none", 0, offset)),
        make.binary("lt", offset, make.number("rows", rows, offset)),
    )
    places = make.expand(offset, batch, heads, columns, size)  # those outside are clamped
    return make.where(inside, make.site.step(GatherElements(2), [new, places]), past)


def _padded(make: Composer, value: str, axis: int, extent: int) -> str:
    """``value`` with zeros behind it along ``axis``, where it is shorter than ``extent``."""
    missing = [0] * 4
    missing[axis] = max(0, extent - make.shape(value)[axis])
    return make.site.step(Pad((0,) * 4, tuple(missing)), [value]) if any(missing) else value


def _columns_read(step: _Step) -> int:
    """How many positions of the caches take part."""
    return step.past + step.rows if isinstance(step.past, int) else step.columns


def _repeated(make: Composer, state: str, repeats: int, step: _Step) -> str:
    """Keys or values that rows see, once for each head of queries."""
    state = make.part(state, 2, 0, _columns_read(step))
    batch, heads, columns, size = make.shape(state)
    each = make.reshape(state, batch, heads, 1, columns, size)
    whole = make.expand(each, batch, heads, repeats, columns, size)
    return make.reshape(whole, batch, heads * repeats, columns, size)


def _scoring(make: Composer, step: _Step) -> Scoring:
    attributes = make.site.attributes
    bias, window = make.given(_BIAS), int(attributes.get("local_window_size", -1))
    scoring = Scoring(
        float(attributes.get("scale", 0.0)),
        () if bias is None else (_padded(make, bias, 3, _columns_read(step)),),
        float(attributes.get("softcap", 0.0)),
        window=window if window > 0 else None,
        sink=_sink(make),
    )
    if isinstance(step.past, int):
        return replace(scoring, past=step.past)
    return replace(scoring, seen=_seen(make, step, step.past, scoring.window))


def _sink(make: Composer) -> str | None:
    """A score that no column has: of every head, or zero for all."""
    sink = make.given(_SINK)
    if sink is not None:
        return make.reshape(sink, 1, *make.shape(sink), 1, 1)
    smooth = int(make.site.attributes.get("smooth_softmax", 0)) == 1
    return make.number("sink", 0.0, make.site.input(0)) if smooth else None


def _seen(make: Composer, step: _Step, past: str, window: int | None) -> str:
    """Whether each row sees each column: not those after its own, nor those before its window."""
    distances = np.arange(step.columns) - np.arange(step.rows)[:, None]
    behind = make.array("distances", distances[None, None].astype(make.dtype(past)))
    own = make.reshape(past, *make.shape(past), 1, 1, 1)
    seen = make.binary("le", behind, own)
    if window is None:
        return seen
    first = make.binary("sub", own, make.number("window", window, own))
    return make.binary("and", seen, make.binary("gt", behind, first))
