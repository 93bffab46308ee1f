"""Importer of RotaryEmbedding."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.graph.ops.elementwise import BinaryOp
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.shape import Concat, Reshape
from autosched.onnx.importer.movement import slice_of
from autosched.onnx.importer.site import Site, UnsupportedError


def import_rotary_embedding(site: Site) -> None:
    """Pairs of elements of every head turned by the angle of their position.

    Data ``[batch, heads, positions, size]``, or ``[batch, positions, heads * size]``, whose heads
    are taken apart by a view.  What the rotation leaves out is appended as it is.
    """
    shape = site.type(0).shape
    data, heads_axis = site.input(0), 1
    if len(shape) == 3:
        heads = int(site.attributes.get("num_heads", 0))
        if heads < 1 or shape[2] % heads:
            raise UnsupportedError(f"num_heads {heads} for {site.type(0)}")
        data, heads_axis = site.step(Reshape((*shape[:2], heads, shape[2] // heads)), [data]), 2
    size = site.builder.types[data].shape[-1]
    count = int(site.attributes.get("rotary_embedding_dim", 0)) or size
    cosine, sine = (_angles(site, index, heads_axis) for index in (1, 2))
    interleaved = bool(site.attributes.get("interleaved", 0))
    site.emit(Reshape(shape), [rotated(site, data, Rotation(cosine, sine, count, interleaved))])


@dataclass(frozen=True, slots=True)
class Rotation:
    """How the elements of heads are rotated.

    Attributes:
        cosine: of the angles of pairs; broadcasts to ``[..., count / 2]``.
        sine: of the same angles.
        count: elements of every head that are rotated, the first ones.
        interleaved: pairs are neighbours; else an element of the first half and one of the second.
    """

    cosine: str
    sine: str
    count: int
    interleaved: bool = False


def rotated(site: Site, data: str, rotation: Rotation) -> str:
    """Data of four dimensions, the last of them a head's, rotated; what is left out is appended."""
    size = site.builder.types[data].shape[-1]
    parts = [_rotated_part(site, data, rotation)]
    if rotation.count < size:
        parts.append(_part(site, data, rotation.count, size, 1))
    return parts[0] if len(parts) == 1 else site.step(Concat(3), parts)


def _rotated_part(site: Site, data: str, rotation: Rotation) -> str:
    """The first elements of every head, rotated."""
    count, cosine, sine = rotation.count, rotation.cosine, rotation.sine
    bounds = ((0, count, 2), (1, count, 2))
    if not rotation.interleaved:
        bounds = ((0, count // 2, 1), (count // 2, count, 1))
    first, second = (_part(site, data, *bound) for bound in bounds)
    real = _combined(site, BinaryOp("sub"), (cosine, first), (sine, second))
    imaginary = _combined(site, BinaryOp("add"), (sine, first), (cosine, second))
    if not rotation.interleaved:
        return site.step(Concat(3), [real, imaginary])
    shape = site.builder.types[real].shape
    columns = [site.step(Reshape((*shape, 1)), [part]) for part in (real, imaginary)]
    return site.step(Reshape((*shape[:-1], count)), [site.step(Concat(4), columns)])


def _combined(site: Site, op: BinaryOp, lhs: tuple[str, str], rhs: tuple[str, str]) -> str:
    products = [site.step(BinaryOp("mul"), list(factors)) for factors in (lhs, rhs)]
    return site.step(op, products)


def _angles(site: Site, index: int, heads_axis: int) -> str:
    """Input ``index``, one row for each position, with a dimension for the heads."""
    table = site.input(index)
    if site.has(3):
        table = site.step(Gather(0), [table, site.input(3)])
    rows = list(site.builder.types[table].shape)
    return site.step(Reshape((*rows[:heads_axis], 1, *rows[heads_axis:])), [table])


def _part(site: Site, data: str, start: int, stop: int, step: int) -> str:
    """Some elements of every head."""
    shape = site.builder.types[data].shape
    bounds = [(0, extent, 1) for extent in shape[:-1]]
    return site.step(slice_of([*bounds, (start, stop, step)]), [data])
