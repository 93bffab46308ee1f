"""Fast correlation from interpolation points (Toom and Cook), in exact rational numbers.

``m`` results of a correlation with ``r`` taps need ``n = m + r - 1`` products:
``y = A^T [(G g) * (B^T d)]``.  The product of two polynomials of degrees m - 1 and r - 1 is found
from its values at n points, and correlation is the transpose of that:

* row i of ``G`` and column i of ``A^T`` evaluate polynomials of r and m coefficients at point i;
* row i of ``B^T`` has the coefficients of the polynomial that is 1 at point i and 0 at the others.

Whatever comes out is proven (``prove``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from math import lcm
from typing import Final

Matrix = tuple[tuple[Fraction, ...], ...]
# (p, q) is the point p / q, and (p, 0) infinity: a polynomial's value there is its last coefficient
# times a power of p.
Point = tuple[int, int]

F2_3: Final[tuple[Point, ...]] = ((0, 1), (1, 1), (-1, 1), (-1, 0))
# Of points +-a and +-1/a with small numbers those of the least error: a third of that of 1 and 2.
SIX_POINTS: Final[tuple[Point, ...]] = ((0, 1), (2, 3), (-2, 3), (3, 2), (-3, 2), (-1, 0))
THREE_POINTS: Final[tuple[Point, ...]] = ((0, 1), (1, 1), (-1, 0))
# Of three small numbers those of the least error for two taps: two thirds of that of 1, -1 and 2.
FIVE_POINTS: Final[tuple[Point, ...]] = ((0, 1), (-1, 2), (1, 1), (-2, 1), (-1, 0))
# Of two pairs and a single point of small numbers those of the least error for four taps.
SEVEN_POINTS: Final[tuple[Point, ...]] = (
    *((0, 1), (1, 2), (-1, 2)),
    *((1, 1), (-1, 1), (-2, 1), (-1, 0)),
)
EIGHT_POINTS: Final[tuple[Point, ...]] = (
    *((0, 1), (1, 1), (-1, 1)),
    *((1, 2), (-1, 2), (2, 1), (-2, 1), (-1, 0)),
)


@dataclass(frozen=True, slots=True)
class Transforms:
    """The matrices of ``y = A^T [(G g) * (B^T d)]`` for m results of r taps and n products.

    Attributes:
        data: ``B^T``, n x ((m - 1) * stride + r), integers; the first of each row is positive.
        filters: ``G``, n x r.
        results: ``A^T``, m x n.
        stride: of the correlation, in elements of the data.
    """

    data: Matrix
    filters: Matrix
    results: Matrix
    stride: int = 1


@cache
def transforms(points: tuple[Point, ...], taps: int) -> Transforms:
    """The transforms of a correlation with ``taps`` taps, which has n + 1 - taps results.

    Args:
        points: n distinct points (p, q).
        taps: how many elements of the data each result is a sum over.

    Raises:
        ValueError: two points are equal, or there are fewer points than taps.
    """
    count = len(points)
    places = {Fraction(p, q) if q else None for p, q in points}
    if len(places) < count or count < taps:
        raise ValueError(f"{points} are no {max(count, taps)} distinct points")
    rows = [_basis(points, number) for number in range(count)]
    # The filters are transformed once, so they take the denominators.
    scales = [_scale(row) for row in rows]
    found = Transforms(
        tuple(tuple(x * scale for x in row) for row, scale in zip(rows, scales, strict=True)),
        tuple(
            tuple(x / scale for x in _powers(point, taps))
            for point, scale in zip(points, scales, strict=True)
        ),
        tuple(zip(*(_powers(point, count + 1 - taps) for point in points), strict=True)),
    )
    prove(found)
    return found


@cache
def strided(points: tuple[Point, ...], taps: int, stride: int) -> Transforms:
    """The transforms of a correlation that moves by ``stride`` elements from result to result.

    Every stride-th tap meets every stride-th element of the data: the correlation is a sum of
    ``stride`` ones of stride 1, each of which has transforms, or one tap and needs none.

    Args:
        points: of those with the most taps; m + 1 fewer taps of it are the m results.
        taps: how many elements of the data each result is a sum over.
        stride: 1 or more.

    Raises:
        ValueError: as ``transforms``; or the sums differ in their taps, beyond single ones.
    """
    if stride == 1:
        return transforms(points, taps)
    most = -(-taps // stride)
    results = len(points) + 1 - most
    reads = (results - 1) * stride + taps
    data: list[tuple[Fraction, ...]] = []
    filters: list[tuple[Fraction, ...]] = []
    columns: list[tuple[Fraction, ...]] = []
    for first in range(min(stride, taps)):
        own = len(range(first, taps, stride))
        if own not in (1, most):
            raise ValueError(f"{taps} taps of stride {stride} have sums of {own} and {most}")
        part = transforms(points, own) if own > 1 else _one_tap(results)
        data += [_spread(row, first, stride, reads) for row in part.data]
        filters += [_spread(row, first, stride, taps) for row in part.filters]
        columns += zip(*part.results, strict=True)
    found = Transforms(tuple(data), tuple(filters), tuple(zip(*columns, strict=True)), stride)
    prove(found)
    return found


def _one_tap(results: int) -> Transforms:
    """Products of the data as they are with the only tap."""
    unit = tuple(tuple(Fraction(i == j) for j in range(results)) for i in range(results))
    return Transforms(unit, ((Fraction(1),),) * results, unit)


def _spread(row: tuple[Fraction, ...], first: int, stride: int, size: int) -> tuple[Fraction, ...]:
    """The row with its elements ``stride`` apart, from ``first`` on."""
    found = [Fraction(0)] * size
    for number, value in enumerate(row):
        found[first + number * stride] = value
    return tuple(found)


def _powers(point: Point, count: int) -> tuple[Fraction, ...]:
    """What ``count`` coefficients are multiplied with for the value at a point."""
    p, q = point
    return tuple(Fraction(p**k * q ** (count - 1 - k)) for k in range(count))


def _basis(points: Sequence[Point], number: int) -> tuple[Fraction, ...]:
    """Coefficients of the polynomial that is 1 at one point and 0 at the others."""
    poly = [Fraction(1)]
    for k, (p, q) in enumerate(points):
        if k != number:  # times q x - p
            raised, same = [Fraction(0), *poly], [*poly, Fraction(0)]
            poly = [q * x - p * c for x, c in zip(raised, same, strict=True)]
    value = sum(c * x for c, x in zip(poly, _powers(points[number], len(points)), strict=True))
    return tuple(c / value for c in poly)


def _scale(row: tuple[Fraction, ...]) -> int:
    """What makes a row integers, the first of them positive."""
    size = lcm(*(x.denominator for x in row))
    return size if next(x for x in row if x) > 0 else -size


def prove(found: Transforms) -> None:
    """Show that the transforms are a correlation, for all data and filters.

    Raises:
        ValueError: they are not.
    """
    taps, results = range(len(found.filters[0])), range(len(found.results))
    # Both sides are linear in the data and in the filter: they are equal if they are for every
    # pair of elements that are 1 among zeros.
    for (i, k), j in product(product(results, taps), range(len(found.data[0]))):
        terms = zip(found.results[i], found.filters, found.data, strict=True)
        value = sum(result * taken[k] * column[j] for result, taken, column in terms)
        if value != (j == i * found.stride + k):
            raise ValueError(f"result {i} has {value} times datum {j} times tap {k}")
