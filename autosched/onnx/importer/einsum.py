"""Importer of Einsum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from string import ascii_letters

from autosched.graph.ops.einsum import Einsum
from autosched.onnx.importer.site import Site, UnsupportedError

_ELLIPSIS = "..."


def import_einsum(site: Site) -> None:
    """Einsum: two operands at a time, from the left; labels that only they have are summed."""
    equation = site.attributes["equation"].replace(" ", "")
    labels, output = _labels(equation, [site.rank(index) for index in range(site.arity)])
    values = site.inputs()
    while len(values) > 2:
        kept = [name for name in dict.fromkeys(labels[0] + labels[1])]
        later = set("".join(labels[2:]) + output)
        between = "".join(label for label in kept if label in later)
        product = site.step(Einsum((labels[0], labels[1]), between), values[:2])
        values, labels = [product, *values[2:]], [between, *labels[2:]]
    site.emit(Einsum(tuple(labels), output), values)


def _labels(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Labels of all operands and of the result, the ellipsis replaced by letters of its own.

    Raises:
        UnsupportedError: the equation does not fit the operands.
    """
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks) or any(_too_long(t, r) for t, r in zip(terms, ranks, strict=True)):
        raise UnsupportedError(f"equation {equation!r} for operands of {list(ranks)} dimensions")
    counts = [rank - len(_named(term)) for term, rank in zip(terms, ranks, strict=True)]
    free = (letter for letter in ascii_letters if letter not in equation)
    widest = max((n for n, term in zip(counts, terms, strict=True) if _ELLIPSIS in term), default=0)
    broadcast = "".join(_first(free, widest))
    labels = [
        term.replace(_ELLIPSIS, broadcast[len(broadcast) - count :])
        for term, count in zip(terms, counts, strict=True)
    ]
    if arrow:
        return labels, right.replace(_ELLIPSIS, broadcast)
    once = [label for label, count in Counter(_named(left.replace(",", ""))).items() if count == 1]
    return labels, broadcast + "".join(sorted(once))


def _first(letters: Iterator[str], count: int) -> list[str]:
    found = [letter for _, letter in zip(range(count), letters, strict=False)]
    if len(found) < count:
        raise UnsupportedError("it has more dimensions than there are letters")
    return found


def _named(term: str) -> str:
    return term.replace(_ELLIPSIS, "")


def _too_long(term: str, rank: int) -> bool:
    named = len(_named(term))
    return named > rank if _ELLIPSIS in term else named != rank
