"""Interval analysis and substitution of affine forms over loop variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sketch.lang.affine import Interval, bounds
from sketch.nest.loopnest import Affine, Buffer, Index, Loop, LoopVar, Predicate, Quasi

Ranges = Mapping[LoopVar, Interval]


def loop_range(loop: Loop) -> Interval:
    """Smallest and largest value of the loop's variable."""
    return 0, (int(loop.extent) - 1) * int(loop.stride)


def interval(form: Affine, ranges: Ranges) -> Interval:
    """Smallest and largest value of an affine form, each variable on its own."""
    return bounds(form.const, form.terms, ranges.__getitem__)


def decide(predicate: Predicate, ranges: Ranges) -> bool | None:
    """True or False where the predicate holds everywhere or nowhere, None where it depends."""
    low, high = interval(predicate.index, ranges)
    if low >= predicate.low and high < predicate.high:
        return True
    if high < predicate.low or low >= predicate.high:
        return False
    return None


def narrowed(ranges: Ranges, index: Affine, low: int, high: int) -> Ranges:
    """What is known where an index is in a range; used where the index is one variable.

    Args:
        ranges: of variables, wherever the index is.
        index: a form.
        low: its least value.
        high: its largest value.
    """
    lone = lone_variable(index)
    return ranges if lone is None else {**ranges, lone: (low, high)}


def lone_variable(index: Affine) -> LoopVar | None:
    """The variable that a form is, None where it is something else."""
    match index:
        case Affine(((var, 1),), 0):
            return var
        case _:
            return None


def substitute_affine(form: Affine, values: Mapping[LoopVar, Affine]) -> Affine:
    """Replace variables by affine forms; returns ``form`` itself where none occurs."""
    for var, _ in form.terms:
        if var in values:
            break
    else:
        return form
    const, sums = form.const, dict[LoopVar, int]()
    for var, coefficient in form.terms:
        part = values.get(var)
        if part is None:
            sums[var] = sums.get(var, 0) + coefficient
            continue
        const += part.const * coefficient
        for inner, factor in part.terms:
            sums[inner] = sums.get(inner, 0) + factor * coefficient
    return Affine(tuple([term for term in sums.items() if term[1]]), const)


def constant(value: int) -> Affine:
    """The form without variables."""
    return Affine((), value)


def variables(form: Affine) -> set[LoopVar]:
    """The variables of a form."""
    return {var for var, _ in form.terms}


def flatten(
    buffer: Buffer, indices: Sequence[Index]
) -> tuple[Affine, tuple[tuple[Quasi, int], ...]]:
    """The flat element offset: an affine part, and quasi-affine indices with their strides."""
    const, sums = 0, dict[LoopVar, int]()
    rest: list[tuple[Quasi, int]] = []
    for index, stride in zip(indices, buffer.strides, strict=True):
        if isinstance(index, Quasi):
            rest.append((index, int(stride)))
            continue
        const += index.const * int(stride)
        for var, coefficient in index.terms:
            sums[var] = sums.get(var, 0) + coefficient * int(stride)
    return Affine(tuple([term for term in sums.items() if term[1]]), const), tuple(rest)
