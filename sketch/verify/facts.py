"""What is known where a statement runs: the reach of every loop, and predicates that hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from sketch.errors import LoweringError
from sketch.lang.affine import Interval, bounds
from sketch.nest.intervals import value_interval
from sketch.nest.loopnest import Affine, Index, Loop, LoopKind, LoopVar, Predicate

_Narrowed = tuple[Affine, int, int]
_FactorOf = Callable[[Mapping[LoopVar, int], Affine], int]


def share(terms: Mapping[LoopVar, int], part: Affine) -> int:
    """The factor with which all of ``part`` occurs in ``terms``; 0 when it does not."""
    factor = 0
    for var, coefficient in part.terms:
        quotient, remainder = divmod(terms.get(var, 0), coefficient)
        if remainder or not quotient or (factor and quotient != factor):
            return 0
        factor = quotient
    return factor


def least_share(terms: Mapping[LoopVar, int], part: Affine) -> int:
    """The factor with which ``part`` occurs in ``terms`` at least: 1 of ``x + y`` in ``2x + y``."""
    quotients = [terms.get(var, 0) / coefficient for var, coefficient in part.terms]
    signs = {quotient > 0 for quotient in quotients}
    return int(min(quotients, key=abs)) if len(signs) == 1 else 0


def inner_share(terms: Mapping[LoopVar, int], part: Affine) -> int:
    """The factor with which all of ``terms`` occur in ``part``: 1 of ``x`` in ``x + y``."""
    own = Affine(tuple((var, part.coefficient(var)) for var, count in terms.items() if count))
    return share(terms, own) if all(coefficient for _, coefficient in own.terms) else 0


@dataclass(frozen=True, eq=False)
class Facts:
    """The loops around a place, outermost first, and the predicates that hold there.

    Attributes:
        reaches: largest value of every loop variable; the smallest is 0.
        strides: every value is a multiple of them.
        where: for messages.
        around: what was known before the last predicates; None: nothing.
        taken: the variables of tensor units, of what lies together.
    """

    reaches: Mapping[LoopVar, int]
    strides: Mapping[LoopVar, int]
    predicates: tuple[Predicate, ...]
    where: str = ""
    around: Facts | None = None
    taken: frozenset[LoopVar] = frozenset()

    def inside(self, loop: Loop) -> Facts:
        """What is known in a loop's body."""
        reach = (int(loop.extent) - 1) * int(loop.stride)
        together = loop.kind is LoopKind.TENSOR and int(loop.stride) == 1
        return Facts(
            {**self.reaches, loop.var: reach},
            {**self.strides, loop.var: int(loop.stride)},
            (*self.predicates, *loop.clip),
            self.where,
            self,
            self.taken | {loop.var} if together else self.taken,
        )

    def also(self, predicates: Iterable[Predicate], where: str = "") -> Facts:
        """What is known where these hold, too."""
        known = (*self.predicates, *predicates)
        return Facts(self.reaches, self.strides, known, where or self.where, self, self.taken)

    @cached_property
    def narrowed(self) -> tuple[_Narrowed, ...]:
        """Every predicate's form with its least and largest value."""
        before = self.around
        found = [] if before is None else [*before.narrowed]
        for predicate in self.predicates[0 if before is None else len(before.predicates) :]:
            low, high = self.plain(predicate.index)
            if low < predicate.low or high >= predicate.high:
                ends = max(low, predicate.low), min(high, predicate.high - 1)
                found.append((predicate.index, *ends))
        return tuple(found)

    @cached_property
    def _quotients(self) -> tuple[_Narrowed, ...]:
        """What every predicate, ``low <= d q + r <= high``, says of q: a tile is left out where its
        first element is.  Likewise what a tensor unit takes together, with d = 1.
        """
        found = []
        for index, low, high in self.narrowed:
            if any(v in self.taken for v, _ in index.terms):
                rest = tuple((v, c) for v, c in index.terms if v in self.taken)
                whole = tuple((v, c) for v, c in index.terms if v not in self.taken)
                least, most = self.plain(Affine(rest, index.const))
                found.append((Affine(whole), low - most, high - least))
            for factor in sorted({c for _, c in index.terms if c > 1}):
                whole = tuple((v, c // factor) for v, c in index.terms if c % factor == 0)
                rest = tuple((v, c) for v, c in index.terms if c % factor)
                least, most = self.plain(Affine(rest, index.const))
                ends = -(-(low - most) // factor), (high - least) // factor
                found.append((Affine(whole), *ends))
        return tuple(found)

    @cached_property
    def impossible(self) -> bool:
        """Whether the predicates can never hold together, so that nothing runs here: none of an
        element, say, that only loops beyond the end of an axis would reach.
        """
        found: dict[frozenset[tuple[LoopVar, int]], Interval] = {}
        for index, low, high in self.narrowed:
            terms, ends = frozenset(index.terms), (low - index.const, high - index.const)
            before = found.get(terms, ends)
            found[terms] = max(before[0], ends[0]), min(before[1], ends[1])
        return any(low > high for low, high in found.values())

    def plain(self, index: Affine) -> Interval:
        """Least and largest value of a form by its loops alone.

        Raises LoweringError when a variable is used outside its loop.
        """
        return bounds(index.const, index.terms, self._range)

    def _range(self, var: LoopVar) -> Interval:
        reach = self.reaches.get(var)
        if reach is None:
            raise LoweringError(f"variable {var.name} is used outside its loop", self.where)
        return 0, reach

    @cached_property
    def _intervals(self) -> dict[tuple[tuple[LoopVar, int], ...], Interval]:
        """Bounds of forms without their constants: copies of a statement differ in these alone."""
        return {}

    def interval(self, index: Affine) -> Interval:
        """Least and largest value of a form; predicates narrow the forms that it is made of."""
        if not self.narrowed:
            return self.plain(index)
        known = self._intervals.get(index.terms)
        if known is None:
            known = self._intervals[index.terms] = self._narrow(Affine(index.terms))
        return known[0] + index.const, known[1] + index.const

    def _narrow(self, index: Affine) -> Interval:
        low, high = self.plain(index)
        whole = [known for known in self.narrowed if len(known[0].terms) == len(index.terms)]
        orders = (*((known,) for known in whole), self.narrowed, self.narrowed[::-1])
        for order in (*orders, self._quotients) if self._quotients else orders:
            first, last = self._by(order, index)
            low, high = max(low, first), min(high, last)
        return low, high

    def _by(
        self, order: Iterable[_Narrowed], index: Affine, factor_of: _FactorOf = share
    ) -> Interval:
        """Bounds by taking out one predicate's form after the other; with any factors of them."""
        rest = dict(index.terms)
        low = high = index.const
        for form, first, last in order:
            factor = factor_of(rest, form)
            if factor == 0:
                continue
            ends = (first - form.const) * factor, (last - form.const) * factor
            low, high = low + min(ends), high + max(ends)
            for var, coefficient in form.terms:
                rest[var] = rest.get(var, 0) - coefficient * factor
        first, last = bounds(0, rest.items(), self._range)
        return low + first, high + last

    def bounds(self, index: Index) -> Interval | None:
        """Least and largest value of any index; None if unknown.

        Lowering bounds what is not affine over its stage's domain, which predicates keep.
        """
        if isinstance(index, Affine):
            return self.interval(index)
        found = value_interval(index.expr, self.interval)
        if found is None:
            return index.low, index.high
        return max(found[0], index.low), min(found[1], index.high)

    def within(self, index: Index, extent: int) -> bool:
        """Whether an index stays in ``0 .. extent - 1``."""
        if isinstance(index, Affine):
            low, high = self.plain(index)
            if low >= 0 and high < extent:
                return True
        bounds = self.bounds(index)
        if bounds is None or (bounds[0] >= 0 and bounds[1] < extent):
            return bounds is not None
        return isinstance(index, Affine) and self._closely_within(index, bounds, extent)

    def _closely_within(self, index: Affine, known: Interval, extent: int) -> bool:
        """``within``, also by each predicate alone, as others may take out parts of its form first,
        and by what an index has at least of its form.
        """
        found = [known]
        for narrowed in self.narrowed:
            found.append(self._by((narrowed,), index))
            found.append(self._by((narrowed, *self.narrowed), index, least_share))
            found.append(self._by((narrowed,), index, inner_share))
        return max(low for low, _ in found) >= 0 and min(high for _, high in found) < extent
