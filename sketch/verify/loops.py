"""Which loops may be inside which, and how each may be executed."""

from __future__ import annotations

from sketch.errors import LoweringError
from sketch.nest.loopnest import Affine, Index, Loop, LoopKind, LoopVar, Store
from sketch.verify.facts import Facts, share

DISTRIBUTED = (LoopKind.PARALLEL, LoopKind.BLOCK)


def check_loop(loop: Loop, around: tuple[Loop, ...]) -> None:
    """Raise LoweringError where a loop has no trips, or its kind does not fit its place."""
    where = f"loop {loop.var.name}"
    if int(loop.extent) < 1 or int(loop.stride) < 1:
        raise LoweringError(f"extent {loop.extent}, stride {loop.stride}", where)
    if loop.kind in DISTRIBUTED:
        if loop.axis_kind == "reduce":
            raise LoweringError("a reduction is distributed over threads", where, "use rfactor")
        if any(outer.kind not in DISTRIBUTED for outer in around):
            raise LoweringError(f"{loop.kind.value} loop inside another kind of loop", where)
    if any(outer.kind is LoopKind.VECTORIZED for outer in around):
        raise LoweringError(
            "loop inside a vectorised loop", where, "vectorise the innermost loop only"
        )
    if loop.kind is LoopKind.VECTORIZED and int(loop.stride) != 1:
        raise LoweringError(
            f"vectorised loop with stride {loop.stride}", where, "vectorise the innermost level"
        )


def check_disjoint(store: Store, loops: tuple[Loop, ...], facts: Facts) -> None:
    """Check that some dimension keeps the iterations of distributed loops apart.

    Raises:
        LoweringError: two iterations write the same elements.
    """
    for loop in loops:
        if loop.kind not in DISTRIBUTED or int(loop.extent) == 1:
            continue
        if not any(_keeps_apart(loop, index, loops, facts) for index in store.indices):
            raise LoweringError(
                f"iterations of {loop.kind.value} loop {loop.var.name} write the same elements of "
                f"{store.targets[0].name}",
                facts.where,
            )


def _keeps_apart(loop: Loop, index: Index, loops: tuple[Loop, ...], facts: Facts) -> bool:
    if not isinstance(index, Affine):
        return False
    if _separates(loop, index, loops):
        return True
    digit = _digit(loop.var, index, facts)
    return digit is not None and _separates(loop, digit, loops)


def _digit(var: LoopVar, index: Affine, facts: Facts) -> Affine | None:
    """The part of a flat index that shares the coefficient of ``var``, if the parts are digits:
    given the predicates, each coefficient exceeds all that the parts below it reach.

    Different values of one digit then are different places, whatever the other digits are.
    """
    if any(c < 0 for _, c in index.terms):
        return None
    parts = _parts(index, facts)
    reach = 0
    for coefficient, terms in sorted(parts.items(), key=lambda part: part[0]):
        low, high = facts.interval(Affine(tuple(terms)))
        if coefficient <= reach and low < high:
            return None
        reach += coefficient * (high - low)
    return next((Affine(tuple(t)) for t in parts.values() if any(v is var for v, _ in t)), None)


def _parts(index: Affine, facts: Facts) -> dict[int, list[tuple[LoopVar, int]]]:
    """The terms of an index by what they are multiplied with: those that a predicate is about
    together, as one number, the others by their coefficients.
    """
    rest = dict(index.terms)
    parts: dict[int, list[tuple[LoopVar, int]]] = {}
    for form, _, _ in facts.narrowed:
        factor = share(rest, form)
        if factor > 0 and factor not in parts:
            parts[factor] = list(form.terms)
            for var, coefficient in form.terms:
                rest[var] -= coefficient * factor
    for var, coefficient in rest.items():
        if coefficient:
            parts.setdefault(coefficient, []).append((var, 1))
    return parts


def _separates(loop: Loop, index: Affine, loops: tuple[Loop, ...]) -> bool:
    """Whether a step of ``loop`` is longer than all faster terms of ``index`` together, and the
    slower terms step over all that ``loop`` reaches.
    """
    step = abs(index.coefficient(loop.var)) * int(loop.stride)
    faster = 0
    for other in loops:
        pace = abs(index.coefficient(other.var)) * int(other.stride)
        if other is loop or pace == 0:
            continue
        if pace < step:
            faster += pace * (int(other.extent) - 1)
        elif pace < step * int(loop.extent) and int(other.extent) > 1:
            return False
    return step > faster
