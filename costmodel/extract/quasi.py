"""What a non-affine index moves with: sums of loop variables, divided or wrapped around."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sketch.lang.expr import Binary, Const, Expr, Select
from sketch.lang.rewrite import children
from sketch.nest.loopnest import Affine, AffineValue, BufferLoad, Index, LoopVar


@dataclass(frozen=True, slots=True)
class Part:
    """``sum(coefficient * variable) // divisor``, which takes at most ``most`` values (None: any
    number).
    """

    terms: tuple[tuple[LoopVar, int], ...]
    divisor: int = 1
    most: int | None = None


def parts_of(expr: Expr) -> tuple[Part, ...]:
    """The distinct parts of an index expression; their counts multiply to a bound of its values."""
    return tuple(dict.fromkeys(_parts(expr)))


def _parts(node: Expr) -> tuple[Part, ...]:
    match node:
        case AffineValue():
            return (Part(node.index.terms),) if node.index.terms else ()
        case LoopVar():
            return (Part(((node, 1),)),)
        case Binary("floordiv", inner, Const(value, _)) if value > 0:
            return tuple(_divided(part, int(value)) for part in parts_of(inner))
        case Binary("mod", inner, Const(value, _)) if value > 0:
            return tuple(_at_most(part, int(value)) for part in parts_of(inner))
        case Binary("min", inner, Const(value, _)) | Binary("min", Const(value, _), inner):
            return tuple(_at_most(part, max(1, int(value) + 1)) for part in parts_of(inner))
        case Select(_, then, otherwise):
            return (*_parts(then), *_parts(otherwise))
        case BufferLoad():
            return tuple(part for index in node.indices for part in parts_of_index(index))
        case _:
            return tuple(part for child in children(node) for part in _parts(child))


def parts_of_index(index: Index) -> tuple[Part, ...]:
    """The parts of an index in whatever form it is given."""
    if isinstance(index, Affine):
        return (Part(index.terms),) if index.terms else ()
    return parts_of(index.expr)


def _divided(part: Part, divisor: int) -> Part:
    most = None if part.most is None else -(-part.most // divisor)
    return replace(part, divisor=part.divisor * divisor, most=most)


def _at_most(part: Part, most: int) -> Part:
    return replace(part, most=most if part.most is None else min(part.most, most))
