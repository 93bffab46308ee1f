"""Nests in which instructions of tensor units are what these compute, one product after another:
machines that lack an instruction run its uses so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from codegen.passes.rewrite import map_body
from sketch.lang.expr import Binary, Cast, Const, Expr, Unary
from sketch.lang.operator_names import BITS, GROUP
from sketch.nest.loopnest import Affine, BufferLoad, LoopNest, Node, Store
from sketch.target.units import UNITS, TensorUnit

NAMED = {unit.name: unit for unit in UNITS}


def without_units(nest: LoopNest) -> LoopNest:
    """The nest with plain products."""
    return replace(nest, roots=tuple(part for root in nest.roots for part in _plain(root)))


def _plain(node: Node) -> tuple[Node, ...]:
    if not isinstance(node, Store):
        return (map_body(node, lambda body: tuple(part for n in body for part in _plain(n))),)
    value = node.values[0]
    unit = NAMED.get(value.op) if isinstance(value, Binary) else None
    if unit is None:
        return (node,)
    return tuple(replace(node, values=(product,)) for product in _products(value, unit))


def _products(value: Binary, unit: TensorUnit) -> Iterator[Expr]:
    """The last first, as instructions on floats have it."""
    factors = zip(_elements(value.lhs, unit), _elements(value.rhs, unit), strict=False)
    for lhs, rhs in reversed(tuple(factors)):
        yield Binary("mul", Cast(lhs, unit.acc), Cast(rhs, unit.acc), unit.acc)


def _elements(packed: Expr, unit: TensorUnit) -> tuple[Expr, ...]:
    """The elements that a lane holds, without zeros at its end."""
    match packed:
        case Unary(op, BufferLoad() as load) if op == GROUP:
            return tuple(_after(load, n) for n in range(unit.k))
        case Unary(op, element) if op == BITS:
            return (element,)
        case Binary("shift_left", Unary(op, element)) if op == BITS:
            return (element,)
        case Binary("bit_or", low, high):
            return (*_elements(low, unit), *_elements(high, unit))
        case Const(0):
            return ()
    raise AssertionError(f"{packed} is no lane of {unit.name}")


def _after(load: BufferLoad, count: int) -> BufferLoad:
    last = load.indices[-1]
    assert isinstance(last, Affine)
    return replace(load, indices=(*load.indices[:-1], replace(last, const=last.const + count)))
