"""Prefetches that are spread over all the times that loops read the same.

What inner loops walk of a packed constant is read again in every trip of the loops around them that
do not index it.  If each of those trips fetched all of what comes next, the first would wait for it
and the others would fetch it in vain.  So each trip, a *turn*, fetches its part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from codegen.llvm.features import ProcessorFeatures
from codegen.llvm.scope import Dynamic, LoopScope
from codegen.llvm.values import Terms
from codegen.llvm.writer import Writer
from sketch.nest.loopnest import LoopVar


@dataclass(frozen=True, slots=True)
class Turns:
    """How what comes next is shared out.

    Attributes:
        count: of the parts.
        part: bytes of a part.
        run: bytes that the inner loops walk one after the other.
        step: bytes that a trip of the innermost loop reads.
        terms: where a turn is in its part, and where the walk began.
        number: bytes of the parts of earlier turns, as a sum of loop variables, and
        first: a constant.
        level: where that is known.
        most: trips that read the same.
    """

    count: int
    part: int
    run: int
    step: int
    terms: Terms
    number: Terms
    first: int
    most: int

    def offset(self, const: int, distance: int) -> int:
        """Bytes from ``terms`` to what is fetched with what is read at the offset ``const``.

        ``distance``: bytes from what is read to what is fetched, were it not shared out.
        """
        whole, rest = divmod(const, self.step)
        return whole * self.step + rest // self.count + max(distance, self.run)

    def start(self, scope: LoopScope, writer: Writer) -> str:
        """Bytes of the parts of earlier turns; of those after the last part, of all but it."""
        if self.count == self.most:
            return scope.scalar(self.number, self.first)
        total, last = scope.scalar(self.number, self.first), (self.count - 1) * self.part
        writer.declare("llvm.smin.i64", "i64 {}(i64, i64)")
        level, key = scope.level_of(self.number), ("turn", self.number, last)
        return scope.hoist(level, key, f"call i64 @llvm.smin.i64(i64 {total}, i64 {last})")


def turns_of(scope: LoopScope, terms: Terms, features: ProcessorFeatures) -> Turns | None:
    """The turns of a load; None: nothing reads the same again, or only when it has left L2.

    Args:
        scope: variables of the loops around.
        terms: of the load's offset in bytes.
        features: of the processor.
    """
    walked, again = _loops(scope, dict(terms))
    if not walked or not again:
        return None
    steps = {var: c * scope.dynamic[var].step for var, c in terms}
    step = run = steps[walked[0]]
    near: list[LoopVar] = []  # loops that walk one run
    for var in walked:
        if steps[var] == run:
            near.append(var)
            run *= scope.dynamic[var].trips
    read = step * math.prod(scope.dynamic[var].trips for var in walked)
    most = math.prod(scope.dynamic[var].trips for var in again)
    # a prefetch for less than half a line would be one of many for the same line
    line = features.line_bytes
    count = min(most, 2 * step // line)
    if step <= 0 or read > features.kept_bytes or count < 2:
        return None
    part = -(-run // (count * line)) * line
    number, first = _number(scope, again, part)
    shared = tuple((v, -(-c // count) if v in near else c) for v, c in terms)
    return Turns(count, part, run, step, shared, number, first, most)


def _loops(
    scope: LoopScope, coefficients: dict[LoopVar, int]
) -> tuple[list[LoopVar], list[LoopVar]]:
    """The loops that a load's address depends on, and those next around them that it does not;
    innermost first.
    """
    walked: list[LoopVar] = []
    again: list[LoopVar] = []
    for var, known in reversed(scope.dynamic.items()):
        if known.trips == 1:
            continue
        if known.shared or (again and var in coefficients):
            break
        (walked if var in coefficients else again).append(var)
    return walked, again


def _number(scope: LoopScope, again: list[LoopVar], part: int) -> tuple[Terms, int]:
    """``part`` times the number of a trip, counted over loops, the innermost first."""
    number: list[tuple[LoopVar, int]] = []
    first, weight = 0, part
    for var in again:
        known: Dynamic = scope.dynamic[var]
        coefficient = -(-weight // known.step)
        number.append((var, coefficient))
        first -= coefficient * known.low
        weight *= known.trips
    return tuple(number), first
