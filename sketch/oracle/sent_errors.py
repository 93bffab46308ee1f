"""Error bounds of reductions whose terms go where data say."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from sketch.analysis.scattering import scattered_axes
from sketch.lang.scalar_functions import Array
from sketch.lang.tensor import Compute
from sketch.oracle.evaluate import Loader, constant, simple_combine
from sketch.oracle.interpret import full_region
from sketch.oracle.known_errors import KnownErrors, growths
from sketch.oracle.rounding_errors import RoundingErrors, magnitude, unit
from sketch.oracle.scattered import sent_terms

# Places that may be off by more: an element may have any of the terms.
_FARTHEST: Final = 2


def sent_errors(op: Compute, load: Loader, errors: KnownErrors) -> Array:
    """Bounds of all values of a stage that ``is_sent``.

    A term whose place may be off is in doubt at the places beside it, too.

    Args:
        op: the stage.
        load: elements of a tensor at given indices.
        errors: of the stages before.
    """
    reduce = op.reduce
    assert reduce is not None
    (source,), (identity,) = reduce.sources, reduce.reducer.identity
    function, nothing = simple_combine(reduce.reducer), magnitude(constant(identity))
    multiplies = function is np.multiply
    kind = function if function in (np.add, np.multiply) else np.maximum
    reach = _reach(op, load, errors)
    if max(reach.values()) > _FARTHEST:
        return np.full(op.shape, np.inf)
    count, sizes, bounds = (np.full(op.shape, float(multiplies and n > 0)) for n in range(3))
    for beside in _moves(reach):
        for terms in sent_terms(op, full_region(op), load, beside):
            bound = RoundingErrors(terms.evaluate, errors)(source)
            size = magnitude(terms.evaluate(source))
            if any(beside.values()):
                terms.reduce(kind, bounds, 1 + bound if multiplies else bound)
                continue
            terms.reduce(kind, bounds, size + bound if multiplies else bound)
            terms.reduce(kind, sizes, size)
            terms.reduce(np.add, count, size != nothing)
    rounding = growths(count) * unit(op.output_dtypes[0])
    if multiplies:
        return np.where(bounds == sizes, 0, bounds - sizes) + _times(rounding, bounds)
    if kind is np.add:
        return bounds * (1 + rounding) + _times(rounding, sizes)
    return bounds


def _times(rounding: Array, sizes: Array) -> Array:
    """Integers have no roundings, even where their product is not known."""
    return np.where(rounding > 0, rounding * sizes, 0)


def _reach(op: Compute, load: Loader, errors: KnownErrors) -> Mapping[int, float]:
    """By dimension, how far from its place a term may be."""
    scattered = scattered_axes(op)
    reach = dict.fromkeys(scattered, 0.0)
    for terms in sent_terms(op, full_region(op), load):
        bounds = RoundingErrors(terms.evaluate, errors)
        for position, place in scattered.items():
            reach[position] = max(reach[position], float(bounds(place).max()))
    return reach


def _moves(reach: Mapping[int, float]) -> Iterator[Mapping[int, int]]:
    """All steps of so many places."""
    farthest = (int(np.ceil(far)) for far in reach.values())
    for steps in itertools.product(*(range(-far, far + 1) for far in farthest)):
        yield dict(zip(reach, steps, strict=True))
