"""Masks at places of stages: those that a stage selects, and where they lie for its readers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sketch.analysis.access import AffineForm, add_forms, affine_index, interval_of
from sketch.analysis.read_bounds import facts_of
from sketch.lang.affine import scale_terms
from sketch.lang.conditions import conjuncts
from sketch.lang.expr import Axis, Const, Expr, Load, Select
from sketch.lang.kept import kept
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


@kept  # every sketch of a program asks for the same stages
def selected_masks(stage: Compute) -> tuple[Masked, ...]:
    """Conditions on several axes where a stage does not select an infinity."""
    return tuple(_conditions(stage))


def _conditions(stage: Compute) -> Iterator[Masked]:
    for node in walk(stage.bodies[0]):
        if not isinstance(node, Select):
            continue
        forms = [_below_zero(part) for part in conjuncts(node.condition)]
        found = [form for form in forms if form is not None] if _is_endless(node.otherwise) else []
        if _is_endless(node.then) and len(forms) == 1 and forms[0] is not None:
            found.append(_opposite(forms[0]))
        for terms, const in found:
            if len(terms) > 1:
                places = tuple(({axis: 1}, 0) for axis in terms)
                yield Masked(Mask(tuple(terms.values()), -const), places)


def _is_endless(value: Expr) -> bool:
    return isinstance(value, Const) and math.isinf(value.value)


def _below_zero(condition: Expr) -> AffineForm | None:
    """The form that is below 0 where an affine comparison holds."""
    facts = facts_of(condition)
    return _opposite(facts[0]) if facts is not None and len(facts) == 1 else None


def _opposite(form: AffineForm) -> AffineForm:
    """Below 0 where ``form`` is not; not below 0 where it is."""
    terms, const = form
    return dict(scale_terms(terms.items(), -1)), -const - 1


def truth_where(test: Expr, condition: AffineForm, holds: bool) -> bool | None:
    """Whether a test holds, of what is known whether a form is below 0."""
    verdicts: list[bool | None] = []
    for part in conjuncts(test):
        form = _below_zero(part)
        if form == condition:
            verdicts.append(holds)
        else:
            verdicts.append(not holds if form == _opposite(condition) else None)
    if False in verdicts:
        return False
    return None if None in verdicts else True


def at_reader(masked: Masked, load: Load) -> Masked | None:
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


def is_never_empty(stage: Compute, masked: Masked) -> bool:
    """Whether the mask holds for some term of every element."""
    terms, const = masked.condition
    worst: AffineForm = ({a: c for a, c in terms.items() if a in stage.axes}, const)
    best: AffineForm = ({a: c for a, c in terms.items() if a not in stage.axes}, 0)
    return interval_of(worst)[1] + interval_of(best)[0] < 0


def is_same(lhs: Masked, rhs: Masked) -> bool:
    """Whether both are one mask at the same places."""
    return lhs.mask is rhs.mask and lhs.places == rhs.places


def at_producer(masked: Masked, load: Load, stage: Compute) -> Masked | None:
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
