"""Importer of onnxruntime's RotaryEmbedding."""

from __future__ import annotations

from autosched.onnx.importer.composer import Composer, check_attributes
from autosched.onnx.importer.rotary import Rotation, angles_of_rows, rotated
from autosched.onnx.importer.site import Site, UnsupportedError


def import_rotary_embedding(site: Site) -> None:
    """RotaryEmbedding of onnxruntime: the positions are before the tables.

    One position is that of the first row.  Data ``[batch, heads, positions, size]``, or
    ``[batch, positions, heads * size]``.
    """
    taken = ("num_heads", "rotary_embedding_dim", "interleaved")
    check_attributes(site, taken, is_packed_batching=0, scale=1.0)
    make, shape = Composer(site), site.type(0).shape
    count = 2 * site.type(2).shape[-1]
    data, heads_axis = site.input(0), 1
    if len(shape) == 3:
        size = _head_size(site, shape[2], count)
        data, heads_axis = make.reshape(data, *shape[:2], shape[2] // size, size), 2
    if count > make.shape(data)[3]:
        raise UnsupportedError(f"{count} elements rotated of {make.shape(data)[3]}")
    positions = _positions(make, shape[0], make.shape(data)[3 - heads_axis])
    cosine, sine = (
        angles_of_rows(make, make.rows(site.input(index), positions), heads_axis)
        for index in (2, 3)
    )
    rotation = Rotation(cosine, sine, count, bool(site.attributes.get("interleaved", 0)))
    make.emit(make.reshape(rotated(make, data, rotation), *shape))


def _head_size(site: Site, hidden: int, count: int) -> int:
    """Elements of a head: those that are rotated, unless the node says how many heads there are."""
    heads = int(site.attributes.get("num_heads", 0))
    partial = int(site.attributes.get("rotary_embedding_dim", 0)) > 0
    if partial and heads < 1:
        raise UnsupportedError("rotary_embedding_dim without num_heads")
    size = hidden // heads if partial else count
    if hidden % size:
        raise UnsupportedError(f"heads of {size} elements in {hidden}")
    return size


def _positions(make: Composer, batch: int, count: int) -> str:
    """``[batch, count]``, or one row for all."""
    given, shape = make.site.input(1), make.site.type(1).shape
    if shape == (batch, count):
        return given
    if shape != (1,):
        raise UnsupportedError(f"position_ids {make.site.type(1)}")
    rows = make.binary("add", given, make.counted(count, make.dtype(given)))
    return make.reshape(rows, 1, count)
