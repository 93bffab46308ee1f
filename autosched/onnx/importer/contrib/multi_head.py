"""Importers of Attention, MultiHeadAttention and QAttention of onnxruntime."""

from __future__ import annotations

from typing import Final

from autosched.onnx.importer.composer import (
    Composer,
    Importer,
    check_attributes,
    check_inputs,
)
from autosched.onnx.importer.contrib.attention import (
    Heads,
    Scoring,
    attended,
    padding_mask,
    split_heads,
)
from autosched.onnx.importer.contrib.products import integer_product, quantised_operand
from autosched.onnx.importer.site import Site, UnsupportedError

_PACKED: Final = 5  # dimensions of an input that holds several of query, key and value
_TAKEN: Final = ("num_heads", "scale", "mask_filter_value", "unidirectional")


def _import_attention(site: Site) -> None:
    """Attention: one product makes query, key and value."""
    check_attributes(site, (*_TAKEN, "qkv_hidden_sizes"), do_rotary=0, past_present_share_buffer=0)
    check_inputs(site, past_sequence_length=6)
    make = Composer(site)
    projected = make.sum(_projection(make), make.given(2))
    _emit_packed(make, projected, mask=3, past=4, bias=5)


def _projection(make: Composer) -> str:
    """Data times the weights of query, key and value, as one matrix of rows."""
    data, weight = make.site.input(0), make.site.input(1)
    batch, rows, features = _three(make, data)
    product = make.product(make.reshape(data, batch * rows, features), weight)
    return make.reshape(product, batch, rows, make.shape(weight)[1])


def _import_quantised_attention(site: Site) -> None:
    """QAttention: as Attention, of bytes whose product is summed in integers."""
    check_attributes(site, _TAKEN, do_rotary=0, past_present_share_buffer=0)
    make = Composer(site)
    for index in (3, 6):
        if site.has(index) and site.type(index).size != 1:
            raise UnsupportedError(f"scales or zero points {site.type(index)} of the input")
    lhs, rhs = quantised_operand(make, 0, 3, 6), quantised_operand(make, 1, 4, 7)
    projected = make.sum(integer_product(make, lhs, rhs), site.input(2))
    _emit_packed(make, projected, mask=5, past=8, bias=None)


def _emit_packed(make: Composer, projected: str, mask: int, past: int, bias: int | None) -> None:
    """Emit the attention of ``projected``, and keys and values of past and present together.

    Args:
        make: of the node.
        projected: queries, keys and values side by side.
        mask: which input hides columns.
        past: which input has keys and values of the past.
        bias: which input is added to scores.
    """
    heads = int(make.site.attributes["num_heads"])
    query, *states = (split_heads(make, part, heads) for part in _thirds(make, projected))
    before, columns = make.given(past), 0
    if before is not None:
        columns = make.shape(before)[3]
        states = [
            make.join(2, _without_first(make, make.part(before, 0, n, n + 1)), state)
            for n, state in enumerate(states)
        ]
    if make.site.wants(1):
        make.emit(make.join(0, *(make.reshape(s, 1, *make.shape(s)) for s in states)), 1)
    _emit_attended(make, Heads(query, *states), columns, (mask, bias))


def _thirds(make: Composer, projected: str) -> list[str]:
    """Queries, keys and values."""
    whole = make.shape(projected)[2]
    sizes = tuple(make.site.attributes.get("qkv_hidden_sizes") or (whole // 3,) * 3)
    if len(sizes) != 3 or sum(sizes) != whole or sizes[0] != sizes[1]:
        raise UnsupportedError(f"qkv_hidden_sizes {list(sizes)} of {whole} columns")
    ends = (sizes[0], 2 * sizes[0], whole)
    return [make.part(projected, 2, end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _without_first(make: Composer, value: str) -> str:
    return make.reshape(value, *make.shape(value)[1:])


def _emit_attended(make: Composer, heads: Heads, past: int, masks: tuple[int, int | None]) -> None:
    """Emit the attention of heads.

    Args:
        make: of the node.
        heads: with keys and values of the past.
        past: how many columns are of the past.
        masks: which input hides columns, and which one is added to scores.
    """
    attributes, (mask, bias) = make.site.attributes, masks
    rows, columns = make.shape(heads.query)[2], make.shape(heads.key)[2]
    added = (
        None if bias is None else make.given(bias),
        padding_mask(make, mask, columns, heads.query),
    )
    causal = bool(attributes.get("unidirectional", 0))
    # Here row n sees the columns up to past + n.  In onnxruntime the last row sees all of them,
    # which is the same where each row has a new key.
    if causal and rows != columns - past:
        raise UnsupportedError(f"unidirectional, {rows} queries with {columns - past} new keys")
    scoring = Scoring(
        float(attributes.get("scale", 0.0)),
        tuple(value for value in added if value is not None),
        past=past if causal else None,
    )
    make.emit(attended(make, heads, scoring))


def _import_multi_head_attention(site: Site) -> None:
    """MultiHeadAttention: query, key and value are projected already, without their bias."""
    check_attributes(site, _TAKEN)
    check_inputs(site, past_sequence_length=8, cache_indirection=9)
    make = Composer(site)
    packed = site.rank(0) == _PACKED or (site.has(1) and site.rank(1) == _PACKED)
    query, *states = _unpacked(make) if packed else _separate(make)
    past = 0
    for n in range(2):
        before = make.given(6 + n)
        if before is not None:
            past = make.shape(before)[2]
            states[n] = make.join(2, before, states[n])
        make.emit(states[n], 1 + n)
    _emit_attended(make, Heads(query, *states), past, (4, 5))


def _unpacked(make: Composer) -> list[str]:
    """Query, key and value as heads, which ``[batch, positions, heads, 3 or 2, size]`` holds."""
    site = make.site
    check_inputs(site, bias=3, value=2)
    if site.rank(0) == _PACKED:
        check_inputs(site, key=1)
        return [_packed_heads(make, site.input(0), n) for n in range(3)]
    query = split_heads(make, site.input(0), int(site.attributes["num_heads"]))
    return [query, *(_packed_heads(make, site.input(1), n) for n in range(2))]


def _packed_heads(make: Composer, packed: str, number: int) -> str:
    batch, positions, heads, _, size = make.shape(packed)
    part = make.part(packed, 3, number, number + 1)
    return make.transpose(make.reshape(part, batch, positions, heads, size), 0, 2, 1, 3)


def _separate(make: Composer) -> list[str]:
    """Query, key and value as heads, with their parts of the bias."""
    site = make.site
    if not (site.has(1) and site.has(2)):
        raise UnsupportedError("a query without key and value")
    heads, start = int(site.attributes["num_heads"]), 0
    result = []
    for index in range(3):
        part = site.input(index)
        if site.rank(index) == 3:
            extent = make.shape(part)[2]
            if site.has(3):
                part = make.sum(part, make.part(site.input(3), 0, start, start + extent))
            start += extent
            part = split_heads(make, part, heads)
        result.append(part)
    return result


def _three(make: Composer, value: str) -> tuple[int, int, int]:
    shape = make.shape(value)
    if len(shape) != 3:
        raise UnsupportedError(f"data of shape {list(shape)}")
    return shape[0], shape[1], shape[2]


IMPORT_ATTENTION: Final[dict[str, Importer]] = {
    "Attention": _import_attention,
    "MultiHeadAttention": _import_multi_head_attention,
    "QAttention": _import_quantised_attention,
}
