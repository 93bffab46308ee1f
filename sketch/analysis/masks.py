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

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from sketch.analysis.access import stage_loads
from sketch.analysis.known_values import (
    Knowledge,
    Value,
    either,
    is_finite,
    is_nonzero,
    known_value,
)
from sketch.analysis.mask_places import (
    Masked,
    Places,
    at_producer,
    at_reader,
    is_never_empty,
    is_same,
    selected_masks,
    truth_where,
)
from sketch.lang.expr import Expr, Load
from sketch.lang.mask import Mask
from sketch.lang.tensor import Compute


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
            full = is_never_empty(stage, masked)
            known.append(inside if full else either(inside, float(identity.value)))
        return max(known, key=_rank)

    def _found(self, stage: Compute) -> Iterator[_Fact]:
        if stage.reduce is not None or len(stage.bodies) != 1:
            return
        (body,) = stage.bodies
        for masked in (*self._inherited(stage), *selected_masks(stage)):
            outside = self._value(stage, body, masked, False)
            if isinstance(outside, float):
                yield _Fact(masked, outside, self._value(stage, body, masked, True))

    def _inherited(self, stage: Compute) -> Iterator[Masked]:
        """Masks of what a stage reads, at its own places; each once."""
        seen: list[tuple[Mask, Places]] = []
        for load in stage_loads(stage):
            for fact in self._facts.get(load.tensor.op, ()):  # type: ignore[arg-type]
                masked = at_reader(fact.masked, load)
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
                there = at_reader(fact.masked, load)
                if masked is None or there is None or there.mask is not masked.mask:
                    continue
                if there.places == masked.places:
                    return fact.inside if holds else fact.outside
            return self.all_values(producer)

        def truth(test: Expr) -> bool | None:
            return None if condition is None else truth_where(test, condition, bool(holds))

        return known_value(expr, element, truth)


def _terms(value: Value) -> Value:
    """What is known of a reduction of terms of which that is known."""
    if not is_finite(value):
        return Knowledge.NOTHING
    return Knowledge.DATA if is_nonzero(value) else Knowledge.FINITE


def _rank(value: Value) -> int:
    """How much is known."""
    return is_finite(value) + is_nonzero(value)


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
        [found for need in known if (found := at_producer(need.masked, load, stage)) is not None]
        for load, known in loads
    ]
    return [
        MaskedNeed(masked, False)
        for masked in each[0]
        if all(any(is_same(masked, other) for other in others) for others in each[1:])
    ]
