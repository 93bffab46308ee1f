"""Every element that is read was computed before.

local P[0..6]:                         C reads P[k] at k < 5; P's loops compute p < 8 - base
  for p in 0..6: P[p] = ...            of it: what C reads, as a value of p, must obey the
  for k in 0..5: C[...] = P[k]         predicates under which P is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    """Where in one dimension a read is, relative to what the writer's own loops walk there.

    ``form`` is None where the index is not affine.
    """

    form: Affine | None
    low: int
    high: int


def check_computed(
    writer: WriteSite,
    buffer: Buffer,
    indices: tuple[Index, ...],
    loops: tuple[Loop, ...],
    facts: Facts,
) -> None:
    """Check that what is read at ``indices`` is computed by ``writer``.

    Panels of packed buffers are padded: no one uses what a lane beyond the axis computes of them.

    Args:
        writer: the store that computes the buffer.
        buffer: what is read.
        indices: of the read.
        loops: around the read.
        facts: known bounds of variables, and where the read is.

    Raises:
        LoweringError: it reads elements that are not computed.
    """
    shared = 0
    for mine, theirs in zip(writer.loops, loops, strict=False):
        if mine is not theirs:
            break
        shared += 1
    own = {loop.var: loop for loop in writer.loops[shared:]}
    places: list[_Place] = []
    walked = [_own_part(index, own) for index in writer.store.indices]
    for dim, (index, written) in enumerate(zip(indices, walked, strict=True)):
        if written is None:
            return  # written at places that are not affine: nothing to compare with
        grain = int(buffer.steps[dim])
        place = _place(index, writer.store.indices[dim], written, facts)
        reach = _dense_reach(written, own, grain)
        if place.low < 0 or (reach is not None and place.high // grain * grain > reach):
            raise LoweringError(
                f"reads {buffer.name} at {place.low}..{place.high} of dimension {dim}, where only "
                f"0..{reach} is computed",
                facts.where,
                "compute the stage further out",
            )
        places.append(place)
    forms = [form for form in walked if form is not None]
    for predicate in _conditions(writer, shared):
        if not _obeyed(predicate, forms, places, own, buffer, facts):
            raise LoweringError(
                f"reads elements of {buffer.name} that stage {writer.store.stage} leaves out",
                facts.where,
                "compute the stage further out",
            )


def _own_part(index: Index, own: Mapping[LoopVar, Loop]) -> Affine | None:
    if not isinstance(index, Affine):
        return None
    return Affine(tuple((v, c) for v, c in index.terms if v in own))


def _place(index: Index, written: Index, own_part: Affine, facts: Facts) -> _Place:
    assert isinstance(written, Affine)
    if not isinstance(index, Affine):
        low, high = facts.bounds(index) or (index.low, index.high)
        return _Place(None, low - written.const, high - written.const)
    form = index + written.scale(-1) + own_part
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


def _obeyed(
    predicate: Predicate,
    forms: list[Affine],
    places: list[_Place],
    own: Mapping[LoopVar, Loop],
    buffer: Buffer,
    facts: Facts,
) -> bool:
    """Whether a writer's predicate holds for all that is read.

    True where it is not about one dimension as a whole: a clipped tile loop leaves out what the
    predicate on the axis leaves out.
    """
    outer = Affine(
        tuple((v, c) for v, c in predicate.index.terms if v not in own), predicate.index.const
    )
    rest = {v: c for v, c in predicate.index.terms if v in own}
    offsets: Interval = (0, 0)
    for dim, form in enumerate(forms):
        factor = next((rest[v] // c for v, c in form.terms if v in rest), 0)
        if not factor:
            continue
        if int(buffer.steps[0]) > 1 and dim in (0, len(forms) - 1):
            return True
        for var, coefficient in form.terms:
            rest[var] = rest.get(var, 0) - coefficient * factor
        place = places[dim]
        if place.form is not None:
            outer = outer + place.form.scale(factor)
        else:
            ends = place.low * factor, place.high * factor
            offsets = offsets[0] + min(ends), offsets[1] + max(ends)
    if any(rest.values()):
        return True
    low, high = facts.interval(outer)
    return low + offsets[0] >= predicate.low and high + offsets[1] < predicate.high
