"""Masks of a program: where terms of reductions are identities, and what nobody reads for that.

    S[i, j] = select(j <= i, x[i, j], -inf)      -inf unless j - i < 1
    M[i] = max(S[i, j])                          terms: only where j - i < 1
    E[i, j] = exp(S[i, j] - M[i])                0 unless j - i < 1, as M is finite: no row is empty
    T[i] = sum(E[i, j])                          terms: only where j - i < 1
    Y[i, d] = sum(E[i, j] * V[j, d])             terms: only where j - i < 1

All readers of ``E`` and ``S`` need them only there, so they may be left out elsewhere, too.

A mask is where a stage selects an infinity: that says that there is nothing, while a zero that is
selected is a number, whose product with an infinity is NaN.  What a power of minus infinity is
multiplied by is taken for finite.  Conditions on one axis are bounds of a loop, and no masks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce

from sketch.analysis.access import (
    AffineForm,
    add_forms,
    affine_index,
    interval_of,
    stage_loads,
)
from sketch.analysis.known_values import (
    Knowledge,
    Value,
    either,
    is_finite,
    is_nonzero,
    known_value,
)
from sketch.lang.affine import scale_terms
from sketch.lang.expr import Axis, Binary, Const, Expr, Load, Select
from sketch.lang.mask import Mask
from sketch.lang.rewrite import walk
from sketch.lang.tensor import Compute

Places = tuple[AffineForm, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Masked:
    """A mask at places of a stage: affine forms of its axes, one for each coefficient."""

    mask: Mask
    places: Places

    @property
    def condition(self) -> AffineForm:
        """The form that is below 0 where the mask holds."""
        total: AffineForm = ({}, -self.mask.high)
        for coefficient, (terms, const) in zip(self.mask.coefficients, self.places, strict=True):
            scaled = dict(scale_terms(terms.items(), coefficient)), const * coefficient
            total = add_forms(total, scaled)
        return total


@dataclass(frozen=True, slots=True, eq=False)
class MaskedNeed:
    """Where a stage is needed.

    Attributes:
        masked: the mask, at places of the stage.
        own: terms of its reduction elsewhere are identities.  If not, all that reads the stage
            needs of it what is there.
    """

    masked: Masked
    own: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Fact:
    """A stage's value where a mask does not hold, and what is known of it where it does."""

    masked: Masked
    outside: float
    inside: Value


def known_stages(stages: Sequence[Compute]) -> tuple[Value, ...]:
    """Of each stage, in topological order, what is known of all its values."""
    known = _Stages(stages, lambda stage: None)
    return tuple(known.all_values(stage) for stage in stages)


def masked_needs(
    stages: Sequence[Compute],
    outputs: Collection[Compute],
    told: Callable[[Compute], Value | None],
) -> dict[Compute, tuple[MaskedNeed, ...]]:
    """Where stages are needed, at most once for each mask; those that are needed everywhere are
    left out.

    Args:
        stages: in topological order.
        outputs: those whose elements are all needed.
        told: what else is known of all values of a stage.
    """
    known = _Stages(stages, told)
    if not any(known.facts(stage) for stage in stages):
        return {}
    needs: dict[Compute, tuple[MaskedNeed, ...]] = {}
    for stage in reversed(stages):
        own = [MaskedNeed(masked, True) for masked in known.skipped(stage)]
        read = [] if stage in outputs else _read(stage, stages, needs)
        # Of the places of one mask the first: what is read is told of those that are left out.
        found: dict[Mask, MaskedNeed] = {}
        for need in (*own, *read):
            found.setdefault(need.masked.mask, need)
        if found:
            needs[stage] = tuple(found.values())
    return needs


class _Stages:
    """What is known of the values of stages; found when it is asked for."""

    def __init__(self, stages: Sequence[Compute], told: Callable[[Compute], Value | None]) -> None:
        self._told = told
        self._facts: dict[Compute, tuple[_Fact, ...]] = {}
        self._values: dict[Compute, Value] = {}
        for stage in stages:  # in order: no recursion is deeper than a stage
            self._facts[stage] = tuple(self._found(stage))

    def facts(self, stage: Compute) -> tuple[_Fact, ...]:
        """Of a stage that only moves or computes elements."""
        return self._facts.get(stage, ())

    def skipped(self, stage: Compute) -> Iterator[Masked]:
        """Masks outside of which all terms of a reduction are its identity."""
        reduce = stage.reduce
        if reduce is None or len(reduce.sources) != 1:
            return
        identity = float(reduce.reducer.identity[0].value)
        for masked in self._inherited(stage):
            if self._value(stage, reduce.sources[0], masked, False) == identity:
                yield masked

    def all_values(self, stage: Compute) -> Value:
        """What is known of all values of a stage."""
        if stage not in self._values:
            told = self._told(stage)
            found = self._elements if stage.reduce is None else self._reduced
            self._values[stage] = found(stage) if told is None else told
        return self._values[stage]

    def _elements(self, stage: Compute) -> Value:
        values = (self._value(stage, body, None, None) for body in stage.bodies)
        masked = (either(fact.outside, fact.inside) for fact in self.facts(stage))
        return max((reduce(either, values), *masked), key=_rank)

    def _reduced(self, stage: Compute) -> Value:
        assert stage.reduce is not None
        if len(stage.reduce.sources) != 1:
            return Knowledge.NOTHING
        source, (identity,) = stage.reduce.sources[0], stage.reduce.reducer.identity
        known = [_terms(self._value(stage, source, None, None))]
        for masked in self.skipped(stage):
            inside = _terms(self._value(stage, source, masked, True))
            full = _never_empty(stage, masked)
            known.append(inside if full else either(inside, float(identity.value)))
        return max(known, key=_rank)

    def _found(self, stage: Compute) -> Iterator[_Fact]:
        if stage.reduce is not None or len(stage.bodies) != 1:
            return
        (body,) = stage.bodies
        for masked in (*self._inherited(stage), *_selected(stage)):
            outside = self._value(stage, body, masked, False)
            if isinstance(outside, float):
                yield _Fact(masked, outside, self._value(stage, body, masked, True))

    def _inherited(self, stage: Compute) -> Iterator[Masked]:
        """Masks of what a stage reads, at its own places; each once."""
        seen: list[tuple[Mask, Places]] = []
        for load in stage_loads(stage):
            for fact in self._facts.get(load.tensor.op, ()):  # type: ignore[arg-type]
                masked = _moved(fact.masked, load)
                if masked is not None and (masked.mask, masked.places) not in seen:
                    seen.append((masked.mask, masked.places))
                    yield masked

    def _value(
        self, stage: Compute, expr: Expr, masked: Masked | None, holds: bool | None
    ) -> Value:
        """What is known of a value of a stage where a mask holds, or where it does not."""
        condition = None if masked is None else masked.condition

        def element(load: Load) -> Value:
            producer = load.tensor.op
            if not isinstance(producer, Compute):
                return Knowledge.DATA
            for fact in self.facts(producer):
                moved = _moved(fact.masked, load)
                if masked is None or moved is None or moved.mask is not masked.mask:
                    continue
                if moved.places == masked.places:
                    return fact.inside if holds else fact.outside
            return self.all_values(producer)

        def truth(test: Expr) -> bool | None:
            return None if condition is None else _truth(test, condition, bool(holds))

        return known_value(expr, element, truth)


@lru_cache(maxsize=4096)  # every sketch of a program asks for the same stages
def _selected(stage: Compute) -> tuple[Masked, ...]:
    """Conditions on several axes where a stage does not select an infinity."""
    return tuple(_conditions(stage))


def _conditions(stage: Compute) -> Iterator[Masked]:
    for node in walk(stage.bodies[0]):
        if not isinstance(node, Select):
            continue
        forms = [_below_zero(part) for part in _conjuncts(node.condition)]
        found = [form for form in forms if form is not None] if _is_endless(node.otherwise) else []
        if _is_endless(node.then) and len(forms) == 1 and forms[0] is not None:
            found.append(_opposite(forms[0]))
        for terms, const in found:
            if len(terms) > 1:
                places = tuple(({axis: 1}, 0) for axis in terms)
                yield Masked(Mask(tuple(terms.values()), -const), places)


def _terms(value: Value) -> Value:
    """What is known of a reduction of terms of which that is known."""
    if not is_finite(value):
        return Knowledge.NOTHING
    return Knowledge.DATA if is_nonzero(value) else Knowledge.FINITE


def _rank(value: Value) -> int:
    """How much is known."""
    return is_finite(value) + is_nonzero(value)


def _is_endless(value: Expr) -> bool:
    return isinstance(value, Const) and math.isinf(value.value)


def _below_zero(condition: Expr) -> AffineForm | None:
    """The form that is below 0 where an affine comparison holds."""
    if not isinstance(condition, Binary) or condition.op not in ("lt", "le", "gt", "ge"):
        return None
    lhs, rhs = affine_index(condition.lhs), affine_index(condition.rhs)
    if lhs is None or rhs is None:
        return None
    if condition.op in ("gt", "ge"):
        lhs, rhs = rhs, lhs
    terms, const = add_forms(lhs, rhs, -1)
    return terms, const - (condition.op in ("le", "ge"))


def _opposite(form: AffineForm) -> AffineForm:
    """Below 0 where ``form`` is not."""
    terms, const = form
    return dict(scale_terms(terms.items(), -1)), -const - 1


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    if isinstance(condition, Binary) and condition.op == "and":
        yield from _conjuncts(condition.lhs)
        yield from _conjuncts(condition.rhs)
    else:
        yield condition


def _truth(test: Expr, condition: AffineForm, holds: bool) -> bool | None:
    """Whether a test holds, of what is known whether a form is below 0."""
    verdicts: list[bool | None] = []
    for part in _conjuncts(test):
        form = _below_zero(part)
        if form == condition:
            verdicts.append(holds)
        else:
            verdicts.append(not holds if form == _opposite(condition) else None)
    if False in verdicts:
        return False
    return None if None in verdicts else True


def _moved(masked: Masked, load: Load) -> Masked | None:
    """A mask of a stage at the places of one that loads of it."""
    axes = load.tensor.op.axes if isinstance(load.tensor.op, Compute) else ()
    forms = [affine_index(index) for index in load.indices]
    places: list[AffineForm] = []
    for terms, const in masked.places:
        place: AffineForm = ({}, const)
        for axis, coefficient in terms.items():
            form = forms[axes.index(axis)]
            if form is None:
                return None
            scaled = dict(scale_terms(form[0].items(), coefficient)), form[1] * coefficient
            place = add_forms(place, scaled)
        places.append(place)
    return Masked(masked.mask, tuple(places))


def _never_empty(stage: Compute, masked: Masked) -> bool:
    """Whether the mask holds for some term of every element."""
    terms, const = masked.condition
    worst: AffineForm = ({a: c for a, c in terms.items() if a in stage.axes}, const)
    best: AffineForm = ({a: c for a, c in terms.items() if a not in stage.axes}, 0)
    return interval_of(worst)[1] + interval_of(best)[0] < 0


def _read(
    stage: Compute, stages: Sequence[Compute], needs: dict[Compute, tuple[MaskedNeed, ...]]
) -> list[MaskedNeed]:
    """Where all readers of a stage need it."""
    loads = [
        (load, needs.get(reader, ()))
        for reader in stages
        for load in stage_loads(reader)
        if load.tensor.op is stage
    ]
    if not loads:
        return []
    each = [
        [found for need in known if (found := _before(need.masked, load, stage)) is not None]
        for load, known in loads
    ]
    return [
        MaskedNeed(masked, False)
        for masked in each[0]
        if all(any(_equal(masked, other) for other in others) for others in each[1:])
    ]


def _equal(lhs: Masked, rhs: Masked) -> bool:
    return lhs.mask is rhs.mask and lhs.places == rhs.places


def _before(masked: Masked, load: Load, stage: Compute) -> Masked | None:
    """A mask of a reader at places of what it loads: those that are an index but for a number."""
    forms = [(axis, affine_index(i)) for axis, i in zip(stage.axes, load.indices, strict=True)]
    places: list[AffineForm] = []
    for place in masked.places:
        found = _axis_of(place, forms)
        if found is None:
            return None
        places.append(found)
    return Masked(masked.mask, tuple(places))


def _axis_of(
    place: AffineForm, forms: Sequence[tuple[Axis, AffineForm | None]]
) -> AffineForm | None:
    if not place[0]:
        return place
    for axis, form in forms:
        if form is not None and form[0] == place[0]:
            return {axis: 1}, place[1] - form[1]
    return None
