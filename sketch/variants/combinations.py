"""Products with a small constant matrix as sums of few terms."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from sketch.lang.expr import Expr
from sketch.variants.interpolation import Matrix

Row = tuple[Fraction, ...]
_ZERO = Fraction(0)


def combinations(matrix: Matrix, terms: Sequence[Expr]) -> list[Expr]:
    """``matrix @ terms``, a sum for each row without the terms that it has zeros for.

    What the points p and -p share is computed once.  Two columns that differ in signs alone become
    the sum and the difference of their terms; two rows that do are the sum and the difference of
    two halves.

    Raises:
        ValueError: a row has zeros only.
    """
    rows, joined = list(matrix), list(terms)
    for left in range(len(terms)):
        for right in range(left + 1, len(terms)):
            if _mirrored([(row[left], row[right]) for row in rows]):
                rows = [_with_sum(row, left, right) for row in rows]
                a, b = joined[left], joined[right]
                joined[left], joined[right] = a + b, a - b
    found: dict[int, Expr] = {}
    for number, row in enumerate(rows):
        partners = range(number + 1, len(rows)) if number not in found else ()
        for other in partners:
            if other not in found and _mirrored(list(zip(row, rows[other], strict=True))):
                same = tuple(x if x == y else _ZERO for x, y in zip(row, rows[other], strict=True))
                turned = tuple(x - y for x, y in zip(row, same, strict=True))
                even, odd = _sum(same, joined), _sum(turned, joined)
                found[number], found[other] = even + odd, even - odd
                break
        if number not in found:
            found[number] = _sum(row, joined)
    return [found[number] for number in range(len(rows))]


def _mirrored(pairs: Sequence[tuple[Fraction, Fraction]]) -> bool:
    """Whether both have equal sizes everywhere, with signs alike in some places only."""
    present = [(x, y) for x, y in pairs if x or y]
    sizes = all(abs(x) == abs(y) for x, y in present)
    return sizes and 0 < sum(x == y for x, y in present) < len(present)


def _with_sum(row: Row, left: int, right: int) -> Row:
    """``x t + y u`` as a multiple of ``t + u`` or of ``t - u``, which take their places."""
    x, y = row[left], row[right]
    values = list(row)
    values[left], values[right] = (x, _ZERO) if x == y else (_ZERO, x)
    return tuple(values)


def _sum(row: Row, terms: Sequence[Expr]) -> Expr:
    """The terms times their coefficients, the ones first: the others are multiply-adds."""
    parts = [(c, t) for c, t in zip(row, terms, strict=True) if c]
    if not parts:
        raise ValueError("a row of zeros is no combination")
    parts.sort(key=lambda part: part[0] != 1)
    coefficient, term = parts[0]
    total = term if coefficient == 1 else term * float(coefficient)
    for coefficient, term in parts[1:]:
        if abs(coefficient) == 1:
            total = total + term if coefficient > 0 else total - term
        else:
            total = total + term * float(coefficient)
    return total
