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
        count: of the parts, and of the turns that fetch one.
        part: bytes of a part.
        run: contiguous bytes that the inner loops walk.
        step: bytes that a trip of the innermost loop reads.
        terms: bytes from the buffer's start to where a turn is in its part.
        before: bytes of the parts of earlier turns: what depends on loop variables,
        before_const: and what does not.
        most: turns there are, ``count`` or more.
    """

    count: int
    part: int
    run: int
    step: int
    terms: Terms
    before: Terms
    before_const: int
    most: int

    def offset(self, const: int, distance: int) -> int:
        """Bytes from ``terms`` to what is fetched with what is read at the offset ``const``.

        ``distance``: bytes from what is read to what is fetched, were it not shared out.
        """
        whole, rest = divmod(const, self.step)
        return whole * self.step + rest // self.count + max(distance, self.run)

    def start(self, scope: LoopScope, writer: Writer) -> str:
        """Bytes of the parts of earlier turns; turns that are left over fetch the last part."""
        total = scope.scalar(self.before, self.before_const)
        if self.count == self.most:
            return total
        last = (self.count - 1) * self.part
        writer.declare("llvm.smin.i64", "i64 {}(i64, i64)")
        level, key = scope.level_of(self.before), ("turn", self.before, last)
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
    before, before_const = _parts_before(scope, again, part)
    shared = tuple((v, -(-c // count) if v in near else c) for v, c in terms)
    return Turns(count, part, run, step, shared, before, before_const, most)


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


def _parts_before(scope: LoopScope, again: list[LoopVar], part: int) -> tuple[Terms, int]:
    """``part`` times the number of a trip, counted over the loops ``again``, innermost first."""
    terms: list[tuple[LoopVar, int]] = []
    const, weight = 0, part
    for var in again:
        known: Dynamic = scope.dynamic[var]
        coefficient = -(-weight // known.step)
        terms.append((var, coefficient))
        const -= coefficient * known.low
        weight *= known.trips
    return tuple(terms), const
