"""Composing what one ONNX node computes out of several graph operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from autosched.graph.ops.base import Shape
from autosched.graph.ops.elementwise import BinaryFunction, BinaryOp, Identity, Where
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.matmul import MatMul
from autosched.graph.ops.movement import Expand
from autosched.graph.ops.shape import Concat, Reshape, Transpose
from autosched.onnx.importer.movement import slice_of
from autosched.onnx.importer.site import Site, UnsupportedError

Importer = Callable[[Site], None]


def applied(
    site: Site,
    importer: Importer,
    operator: str,
    inputs: Sequence[str],
    attributes: Mapping[str, Any],
    outputs: int = 1,
) -> tuple[str, ...]:
    """The results of an ONNX operator that is a part of the node.

    Args:
        site: the node.
        importer: of ``operator``.
        operator: of ONNX.
        inputs: names of values; empty where an input is not given.
        attributes: of ``operator``.
        outputs: how many results it has.
    """
    label = site.builder.unique(f"{site.label}.{operator}")
    names = [label, *(site.builder.unique(f"{label}.{n}") for n in range(1, outputs))]
    node = helper.make_node(operator, list(inputs), names)
    layer = site.layer or site.label
    importer(replace(site, node=node, label=label, attributes=attributes, layer=layer))
    return tuple(names)


def check_attributes(site: Site, taken: Sequence[str] = (), **neutral: object) -> None:
    """Refuse attributes that are not imported.

    Args:
        site: the node.
        taken: names of attributes that the importer reads.
        neutral: of other attributes, the values that change nothing.

    Raises:
        UnsupportedError: the node has another attribute, or one with another value.
    """
    for name, value in site.attributes.items():
        if name not in taken and (name not in neutral or neutral[name] != value):
            raise UnsupportedError(f"attribute {name} = {value!r}")


def check_inputs(site: Site, **places: int) -> None:
    """Raise UnsupportedError if an input is given that is not imported; ``places``: by name."""
    for name, index in places.items():
        if site.has(index):
            raise UnsupportedError(f"input {index} ({name})")


@dataclass(frozen=True, slots=True)
class Composer:
    """Adds operators that are parts of the node of ``site``; most methods return a value's name."""

    site: Site

    def shape(self, value: str) -> Shape:
        """The extents of a value."""
        return self.site.builder.types[value].shape

    def dtype(self, value: str) -> str:
        """The dtype of a value."""
        return self.site.builder.types[value].dtype

    def given(self, index: int) -> str | None:
        """Input ``index``, if it is given."""
        return self.site.input(index) if self.site.has(index) else None

    def binary(self, function: BinaryFunction, lhs: str, rhs: str) -> str:
        """``function(lhs, rhs)``, broadcast."""
        return self.site.step(BinaryOp(function), [lhs, rhs])

    def sum(self, *values: str | None) -> str:
        """The sum of all values that are given, from the first on."""
        first, *others = (value for value in values if value is not None)
        for value in others:
            first = self.binary("add", first, value)
        return first

    def scaled(self, value: str, factor: float) -> str:
        """``value * factor``."""
        if factor == 1.0:
            return value
        return self.binary("mul", value, self.number("factor", factor, value))

    def shifted(self, value: str, offset: float) -> str:
        """``value + offset``."""
        if offset == 0.0:
            return value
        return self.binary("add", value, self.number("offset", offset, value))

    def number(self, role: str, number: float, like: str) -> str:
        """A constant without dimensions, of the dtype of ``like``."""
        return self.site.scalar(role, number, self.dtype(like))

    def array(self, role: str, array: NDArray[Any]) -> str:
        """A constant."""
        return self.site.add_constant(role, array)

    def counted(self, count: int, dtype: str) -> str:
        """The numbers from 0 to ``count`` - 1."""
        return self.array("positions", np.arange(count).astype(dtype))

    def reshape(self, value: str, *shape: int) -> str:
        """The same elements under another shape."""
        return value if self.shape(value) == shape else self.site.step(Reshape(shape), [value])

    def transpose(self, value: str, *permutation: int) -> str:
        """The dimensions in another order."""
        return self.site.step(Transpose(permutation), [value])

    def swapped(self, value: str) -> str:
        """The last two dimensions exchanged."""
        rank = len(self.shape(value))
        return self.transpose(value, *range(rank - 2), rank - 1, rank - 2)

    def moved(self, value: str, axis: int, to: int) -> str:
        """Dimension ``axis`` moved to another place; negative ones count from the end."""
        order = list(range(len(self.shape(value))))
        place = to % len(order)
        order.insert(place, order.pop(axis))
        return self.transpose(value, *order)

    def part(self, value: str, axis: int, start: int, stop: int, step: int = 1) -> str:
        """Some elements along a dimension.

        Args:
            value: a value.
            axis: the dimension, non-negative.
            start: the first element.
            stop: the one after the last.
            step: from one element to the next, positive.
        """
        bounds = [(0, extent, 1) for extent in self.shape(value)]
        if (start, stop, step) == bounds[axis]:
            return value
        bounds[axis] = (start, stop, step)
        return self.site.step(slice_of(bounds), [value])

    def join(self, axis: int, *values: str) -> str:
        """Concatenation along ``axis`` (non-negative)."""
        return values[0] if len(values) == 1 else self.site.step(Concat(axis), list(values))

    def expand(self, value: str, *shape: int) -> str:
        """Repeated to ``shape``."""
        return value if self.shape(value) == shape else self.site.step(Expand(shape), [value])

    def rows(self, table: str, indices: str) -> str:
        """Rows of ``table`` at ``indices``."""
        return self.site.step(Gather(0), [table, indices])

    def product(self, lhs: str, rhs: str) -> str:
        """A matrix product of operands with two dimensions or more."""
        return self.site.step(MatMul(), [lhs, rhs])

    def where(self, condition: str, then: str, otherwise: str) -> str:
        """Elements of ``then`` where ``condition`` holds, else of ``otherwise``."""
        return self.site.step(Where(), [condition, then, otherwise])

    def cast(self, value: str, dtype: str) -> str:
        """``value`` in another dtype."""
        return self.site.cast(value, dtype)

    def emit(self, value: str, index: int = 0) -> None:
        """Let ``value`` be output ``index`` of the node, if it has one."""
        if self.site.wants(index):
            self.site.emit(Identity(), [value], index)
