"""Reductions whose terms each belong to one element: a loop over the terms, not over all pairs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from sketch.analysis.scattering import scattered_axes
from sketch.lang.affine import Interval
from sketch.lang.expr import Axis
from sketch.lang.scalar_functions import Array
from sketch.lang.tensor import Compute
from sketch.oracle.boxes import GENERAL_ELEMENTS, Box, box_size, grid, split_box
from sketch.oracle.evaluate import Evaluator, Loader, constant, simple_combine

_IN_PLACE: Final[Mapping[int, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SentTerms:
    """Some terms of a reduction, and the elements that they are for.

    Attributes:
        evaluate: expressions at these terms, for the element of each.
        places: index arrays of the elements, one a dimension; they broadcast to ``shape``.
        shape: of the mesh of terms.
    """

    evaluate: Evaluator
    places: tuple[Array, ...]
    shape: tuple[int, ...]

    def reduce(self, function: np.ufunc, out: Array, values: Array) -> None:
        """``out[place] = function(out[place], value)`` for one term after another."""
        assert out.flags.c_contiguous
        # Twenty times as fast as with an index for each dimension.
        places = tuple(np.broadcast_to(place, self.shape) for place in self.places)
        flat = np.ravel_multi_index(places, out.shape).reshape(-1)
        found = np.broadcast_to(values, self.shape).reshape(-1)
        function.at(out.reshape(-1), flat, found.astype(out.dtype, copy=False))


def is_sent(op: Compute) -> bool:
    """Whether a stage is evaluated by its terms."""
    reduce = op.reduce
    return reduce is not None and bool(scattered_axes(op)) and bool(simple_combine(reduce.reducer))


def sent_terms(
    op: Compute, region: Sequence[Interval], load: Loader, beside: Mapping[int, int] = _IN_PLACE
) -> Iterator[SentTerms]:
    """The terms of a scattering reduction that are for elements of a region; those of others are
    for some element of it, too, and nothing to it.

    Args:
        op: the stage.
        region: inclusive bounds, one pair a dimension.
        load: elements of a tensor at given indices.
        beside: by dimension, how far from its place the element of each term is.
    """
    scattered = scattered_axes(op)
    bounds = dict(zip(op.axes, region, strict=True))
    box: Box = {a: b for p, (a, b) in enumerate(bounds.items()) if p not in scattered}
    box.update({axis: (0, axis.extent - 1) for axis in op.reduce_axes})
    for part in split_box(box, box_size, GENERAL_ELEMENTS):
        mesh = grid(part)
        terms = Evaluator(mesh, load)
        found = {
            op.axes[p]: _inside(_inside(terms(place), at) + beside.get(p, 0), at)
            for p, place in scattered.items()
            for at in (bounds[op.axes[p]],)
        }
        places: dict[Axis, Array] = {**mesh, **found}
        shape = tuple(high - low + 1 for low, high in part.values())
        yield SentTerms(Evaluator(places, load), tuple(places[a] for a in op.axes), shape)


def _inside(places: Array, bounds: Interval) -> Array:
    return np.clip(places, *bounds)


def evaluate_sent(op: Compute, region: Sequence[Interval], load: Loader, out: Array) -> None:
    """Write the values of a stage on a region into an array of its shape.

    Args:
        op: a stage that ``is_sent``.
        region: inclusive bounds, one pair a dimension.
        load: elements of a tensor at given indices.
        out: the array.
    """
    reduce = op.reduce
    assert reduce is not None
    function = simple_combine(reduce.reducer)
    assert function is not None
    out[tuple(slice(low, high + 1) for low, high in region)] = constant(reduce.reducer.identity[0])
    for terms in sent_terms(op, region, load):
        terms.reduce(function, out, terms.evaluate(reduce.sources[0]))
