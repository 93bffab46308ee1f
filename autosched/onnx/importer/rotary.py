"""Importer of RotaryEmbedding."""

from __future__ import annotations

from dataclasses import dataclass

from autosched.graph.ops.elementwise import BinaryFunction
from autosched.onnx.importer.composer import Composer
from autosched.onnx.importer.site import Site, UnsupportedError


def import_rotary_embedding(site: Site) -> None:
    """Pairs of elements of every head turned by the angle of their position.

    Data ``[batch, heads, positions, size]``, or ``[batch, positions, heads * size]``, whose heads
    are taken apart by a view.  What the rotation leaves out is appended as it is.
    """
    make, shape = Composer(site), site.type(0).shape
    data, heads_axis = site.input(0), 1
    if len(shape) == 3:
        heads = int(site.attributes.get("num_heads", 0))
        if heads < 1 or shape[2] % heads:
            raise UnsupportedError(f"num_heads {heads} for {site.type(0)}")
        data, heads_axis = make.reshape(data, *shape[:2], heads, shape[2] // heads), 2
    count = int(site.attributes.get("rotary_embedding_dim", 0)) or make.shape(data)[3]
    tables, positions = (site.input(1), site.input(2)), make.given(3)
    cosine, sine = (
        angles_of_rows(
            make, table if positions is None else make.rows(table, positions), heads_axis
        )
        for table in tables
    )
    rotation = Rotation(cosine, sine, count, bool(site.attributes.get("interleaved", 0)))
    make.emit(make.reshape(rotated(make, data, rotation), *shape))


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


def rotated(make: Composer, data: str, rotation: Rotation) -> str:
    """Data of four dimensions, the last of them a head's, rotated; what is left out is appended."""
    size = make.shape(data)[3]
    parts = [_rotated_part(make, data, rotation)]
    if rotation.count < size:
        parts.append(make.part(data, 3, rotation.count, size))
    return make.join(3, *parts)


def angles_of_rows(make: Composer, rows: str, heads_axis: int) -> str:
    """Rows ``[batch, positions, pairs]`` of a table, with a dimension for the heads."""
    extents = list(make.shape(rows))
    return make.reshape(rows, *extents[:heads_axis], 1, *extents[heads_axis:])


def _rotated_part(make: Composer, data: str, rotation: Rotation) -> str:
    """The first elements of every head, rotated."""
    count, cosine, sine = rotation.count, rotation.cosine, rotation.sine
    bounds = ((0, count, 2), (1, count, 2))
    if not rotation.interleaved:
        bounds = ((0, count // 2, 1), (count // 2, count, 1))
    first, second = (make.part(data, 3, *bound) for bound in bounds)
    real = _combined(make, "sub", (cosine, first), (sine, second))
    imaginary = _combined(make, "add", (sine, first), (cosine, second))
    if not rotation.interleaved:
        return make.join(3, real, imaginary)
    shape = make.shape(real)
    columns = [make.reshape(part, *shape, 1) for part in (real, imaginary)]
    return make.reshape(make.join(4, *columns), *shape[:3], count)


def _combined(
    make: Composer, function: BinaryFunction, lhs: tuple[str, str], rhs: tuple[str, str]
) -> str:
    return make.binary(function, *(make.binary("mul", *factors) for factors in (lhs, rhs)))
