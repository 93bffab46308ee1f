"""A Gaussian process over the decisions of one task: what the draft model gets wrong there.

Trees need tens of programs before they tell tiles apart, and they follow the noise of each.  A
program that differs from a measured one in one tile is wrong by about as much, and the mean of
several measured ones around it is less noisy than any.  With ``v`` the variant and ``s`` the sketch
of program ``p``, the logarithm of its time over the draft's is taken to be

    mean + a(v) + b(s) + c(p),   cov(c(p), c(q)) = C**2 exp(-|log2 p - log2 q| / length)

for ``p`` and ``q`` of one sketch, 0 for others: Rasmussen and Williams, Gaussian Processes for
Machine Learning (2006), sections 2.2 and 4.2.1.  The exponential kernel lets the time change as
abruptly as it does from one tile to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sketch.population.population import Population

Floats = NDArray[np.float64]

# Standard deviations of logarithms: of variants, of the sketches of one, of the programs of one,
# and of a measurement.  From 16 tasks of two networks, of 218 to 625 programs each.
_OF_VARIANTS: Final = 0.15
_OF_SKETCHES: Final = 0.15
_OF_PROGRAMS: Final = 0.25
_OF_NOISE: Final = 0.05
# Distance at which two programs of a sketch are alike by 1 / e: three tiles are twice as large.
_LENGTH: Final = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredRows:
    """Measured programs of one sketch, and what the draft gets wrong there.

    Attributes:
        population: P rows.
        errors: [P], logarithms of the measured time over the draft's.
    """

    population: Population
    errors: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """Of one sketch: where it was measured [P, D], and what each row counts for [P]."""

    points: Floats
    weights: Floats


class DecisionProcess:
    """What to expect of programs of a task, from those that were measured.

    Args:
        measured: of each sketch, at least one row in all.
    """

    def __init__(self, measured: Sequence[MeasuredRows]) -> None:
        points = [_points(rows.population) for rows in measured]
        errors = np.concatenate([rows.errors for rows in measured])
        variants = np.concatenate(
            [np.full(len(rows.errors), rows.population.sketch.variant) for rows in measured]
        )
        ends = np.cumsum([len(rows.errors) for rows in measured])
        places = [slice(end - len(rows), end) for rows, end in zip(points, ends, strict=True)]
        covariance = _OF_VARIANTS**2 * (variants[:, None] == variants)
        for place, own in zip(places, points, strict=True):
            covariance[place, place] += _within_sketch(own, own)
        covariance[np.diag_indices(len(errors))] += _OF_NOISE**2
        self._mean = float(errors.mean())
        weights = np.linalg.solve(covariance, errors - self._mean)
        self._variants = {
            str(name): _OF_VARIANTS**2 * float(weights[variants == name].sum())
            for name in np.unique(variants)
        }
        self._sketches = {
            rows.population.sketch.key: _Known(own, weights[place])
            for rows, own, place in zip(measured, points, places, strict=True)
        }

    def errors(self, population: Population) -> Floats:
        """[P]: expected logarithm of the time over the draft's."""
        sketch = population.sketch
        of_variant = self._mean + self._variants.get(sketch.variant, 0.0)
        known = self._sketches.get(sketch.key)
        if known is None:
            return np.full(population.count, of_variant)
        covariance = _within_sketch(_points(population), known.points)
        return np.asarray(of_variant + (covariance * known.weights).sum(axis=1))


def _points(population: Population) -> Floats:
    """[P, D]: logarithms of the decisions; some of them are 0."""
    return np.log2(np.maximum(population.values, 0) + 1.0)


def _within_sketch(one: Floats, other: Floats) -> Floats:
    """[P, Q]: covariance of programs of one sketch, but for what their variants share."""
    squares = np.zeros((len(one), len(other)))
    for own, others in zip(one.T, other.T, strict=True):
        squares += (own[:, None] - others) ** 2
    alike = np.exp(np.sqrt(squares) / -_LENGTH)
    return np.asarray(_OF_SKETCHES**2 + _OF_PROGRAMS**2 * alike)
