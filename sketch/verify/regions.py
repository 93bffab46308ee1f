"""Every element that is read was computed before.

local P[0..6]:                         C reads P[k] at k < 5; P's loops compute p < 8 - base
  for p in 0..6: P[p] = ...            of it: what C reads, as a value of p, must obey the
  for k in 0..5: C[...] = P[k]         predicates under which P is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sketch.errors import LoweringError
from sketch.lang.affine import Interval
from sketch.nest.loopnest import Affine, Buffer, Index, Loop, LoopVar, Predicate, Store
from sketch.verify.facts import Facts


@dataclass(frozen=True, slots=True, eq=False)
class WriteSite:
    """A statement that writes a buffer, and the loops around it, outermost first."""

    store: Store
    loops: tuple[Loop, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Where in one dimension a read is, relative to what the writer's own loops walk there, but for
    the constant of its index.

    ``form`` is None where the index is not affine.
    """

    form: Affine | None
    low: int
    high: int


@dataclass(frozen=True, slots=True, eq=False)
class _Test:
    """A condition for all that is read: ``low`` and ``high`` are what it allows the sum of the
    constants of the indices, each times its factor.
    """

    low: int
    high: int
    factors: tuple[tuple[int, int], ...]  # (dimension, factor)


class _Reads:
    """What reads have in common whose indices differ in their constants alone."""

    __slots__ = ("_tests", "places")

    def __init__(self, computed: Computed, indices: tuple[Index, ...], facts: Facts) -> None:
        found = zip(indices, computed.writer.store.indices, computed.forms, strict=False)
        self.places = tuple([_place(*parts, facts) for parts in found])
        self._tests: tuple[_Test, ...] | None = None

    def tests(self, computed: Computed, facts: Facts) -> tuple[_Test, ...]:
        """The conditions, asked for where reads are inside the buffer."""
        if self._tests is None:
            found = (_test(p, computed, self.places, facts) for p in computed.conditions)
            self._tests = tuple([test for test in found if test is not None])
        return self._tests


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """What a writer computes of a buffer, as seen from other loops.

    Attributes:
        writer: its store.
        buffer: that it writes.
        own: the loops that it does not share with the reader, by variable.
        forms: by dimension, what these loops walk of the index that is written; up to the first
            that is not affine, from which on there is nothing to compare reads with.
        reaches: of ``forms``, the last of the elements that they walk; None where they leave some
            out.
        conditions: when an element is written.
        seen: reads by what is known where they are, and their indices without constants.
    """

    writer: WriteSite
    buffer: Buffer
    own: Mapping[LoopVar, Loop]
    forms: tuple[Affine, ...]
    reaches: tuple[int | None, ...]
    conditions: tuple[Predicate, ...]
    seen: dict[tuple[Facts, tuple[object, ...]], _Reads] = field(default_factory=dict)


def computed_by(writer: WriteSite, buffer: Buffer, loops: tuple[Loop, ...]) -> Computed:
    """What ``writer`` computes of ``buffer`` as seen from a place inside ``loops``."""
    shared = 0
    for mine, theirs in zip(writer.loops, loops, strict=False):
        if mine is not theirs:
            break
        shared += 1
    own = {loop.var: loop for loop in writer.loops[shared:]}
    parts = (_own_part(index, own) for index in writer.store.indices)
    forms: list[Affine] = []
    for part in parts:
        if part is None:
            break
        forms.append(part)
    steps = map(int, buffer.steps)
    reaches = tuple(_dense_reach(form, own, step) for form, step in zip(forms, steps, strict=False))
    return Computed(writer, buffer, own, tuple(forms), reaches, _conditions(writer, shared))


def check_computed(computed: Computed, indices: tuple[Index, ...], facts: Facts) -> None:
    """Check that what is read at ``indices`` is computed.

    Panels of packed buffers are padded: no one uses what a lane beyond the axis computes of them.

    Args:
        computed: of what is read.
        indices: of the read.
        facts: known bounds of variables, and where the read is.

    Raises:
        LoweringError: it reads elements that are not computed.
    """
    buffer, store = computed.buffer, computed.writer.store
    reads = _reads(computed, indices, facts)
    consts = [index.const if isinstance(index, Affine) else 0 for index in indices]
    for dim, (place, const) in enumerate(zip(reads.places, consts, strict=False)):
        low, high = place.low + const, place.high + const
        grain, reach = int(buffer.steps[dim]), computed.reaches[dim]
        if low > high:  # guards exclude each other: nothing is read
            return
        if low < 0 or (reach is not None and high // grain * grain > reach):
            raise LoweringError(
                f"reads {buffer.name} at {low}..{high} of dimension {dim}, where only "
                f"0..{reach} is computed",
                facts.where,
                "compute the stage further out",
            )
    if len(reads.places) < len(indices):
        return
    for test in reads.tests(computed, facts):
        if not test.low <= sum([factor * consts[dim] for dim, factor in test.factors]) < test.high:
            raise LoweringError(
                f"reads elements of {buffer.name} that stage {store.stage_name} leaves out",
                facts.where,
                "compute the stage further out",
            )


def _reads(computed: Computed, indices: tuple[Index, ...], facts: Facts) -> _Reads:
    key = facts, tuple([i.terms if isinstance(i, Affine) else i for i in indices])
    known = computed.seen.get(key)
    if known is None:
        known = computed.seen[key] = _Reads(computed, indices, facts)
    return known


def _own_part(index: Index, own: Mapping[LoopVar, Loop]) -> Affine | None:
    if not isinstance(index, Affine):
        return None
    return Affine(tuple((v, c) for v, c in index.terms if v in own))


def _place(index: Index, written: Index, own_part: Affine, facts: Facts) -> _Place:
    assert isinstance(written, Affine)
    if not isinstance(index, Affine):
        low, high = facts.bounds(index) or (index.low, index.high)
        return _Place(None, low - written.const, high - written.const)
    form = Affine(index.terms) + written.scale(-1) + own_part
    return _Place(form, *facts.interval(form))


def _dense_reach(form: Affine, own: Mapping[LoopVar, Loop], grain: int) -> int | None:
    """The last of the values 0, grain, ... that a form takes; None where it leaves some out."""
    reach = 0
    steps = [(c * int(own[v].stride), int(own[v].extent)) for v, c in form.terms]
    for step, extent in sorted(steps):
        if extent == 1:
            continue
        if step <= 0 or step > reach + grain:
            return None
        reach += step * (extent - 1)
    return reach


def _conditions(writer: WriteSite, shared: int) -> tuple[Predicate, ...]:
    """When an element is written.  A reduction writes all that it starts from; its predicates say
    which terms count.
    """
    if writer.store.reducer is not None:
        return ()
    clips = (p for loop in writer.loops[shared:] for p in loop.clip)
    return (*writer.store.predicates, *clips)


def _test(
    predicate: Predicate, computed: Computed, places: tuple[_Place, ...], facts: Facts
) -> _Test | None:
    """Whether a writer's predicate holds for all that is read.

    None where it is not about one dimension as a whole: a clipped tile loop leaves out what the
    predicate on the axis leaves out.
    """
    own, forms, buffer = computed.own, computed.forms, computed.buffer
    outer = Affine(
        tuple((v, c) for v, c in predicate.index.terms if v not in own), predicate.index.const
    )
    rest = {v: c for v, c in predicate.index.terms if v in own}
    offsets: Interval = (0, 0)
    factors: list[tuple[int, int]] = []
    for dim, form in enumerate(forms):
        factor = next((rest[v] // c for v, c in form.terms if v in rest), 0)
        if not factor:
            continue
        if int(buffer.steps[0]) > 1 and dim in (0, len(forms) - 1):
            return None
        for var, coefficient in form.terms:
            rest[var] = rest.get(var, 0) - coefficient * factor
        place = places[dim]
        factors.append((dim, factor))
        if place.form is not None:
            outer = outer + place.form.scale(factor)
        else:
            ends = place.low * factor, place.high * factor
            offsets = offsets[0] + min(ends), offsets[1] + max(ends)
    if any(rest.values()):
        return None
    low, high = facts.interval(outer)
    return _Test(
        predicate.low - low - offsets[0], predicate.high - high - offsets[1], tuple(factors)
    )
