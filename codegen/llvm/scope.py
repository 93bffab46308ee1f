"""What the loop variables are at the current point, and where their arithmetic is written.

Every loop that exists at run time has a *level* with a prologue in its header block.  A sum of
loop variables, a pointer or a condition is written once, in the prologue of the innermost loop it
depends on, and found again through that level's cache.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from codegen.llvm.values import Form, SsaValue, Terms
from codegen.llvm.writer import Lines, Writer
from codegen.passes.affine import lone_variable
from sketch.lang.affine import Interval, bounds
from sketch.nest.loopnest import Affine, Buffer, LoopVar


@dataclass(slots=True)
class LoopHeader:
    """A loop header: hoisted lines, and what they computed."""

    prologue: Lines
    cache: dict[Hashable, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dynamic:
    """A loop variable at run time: its SSA name, its level, its least and largest value.

    ``step``: all its values are multiples of it.  ``shared``: threads share its values out.
    """

    ref: str
    level: int
    low: int
    high: int
    step: int
    shared: bool = False

    @property
    def trips(self) -> int:
        """The most values that it has."""
        return (self.high - self.low) // self.step + 1


@dataclass(frozen=True, slots=True)
class Plan:
    """An affine form, scaled, at a place in the code: what is known apart from unrolled loops.

    ``low`` and ``high`` bound the part that depends on dynamic variables and the lane.  The plan
    holds on to the form that it was made of, whose identity is its key.
    """

    index: Affine
    const: int
    static: Terms
    dynamic: Terms
    lane: int
    low: int
    high: int

    def value(self, static: dict[LoopVar, int]) -> int:
        """The constant part for one instance."""
        total = self.const
        for var, coefficient in self.static:
            total += coefficient * static[var]
        return total


class KnownAccess:
    """An access without quasi-affine indices at a place in the code.

    ``known`` are values already loaded, by the constant part of the offset; they hold while the
    memory's ``epoch`` lasts.
    """

    __slots__ = ("epoch", "in_memory", "known", "plan")

    def __init__(self, plan: Plan, in_memory: bool, epoch: int) -> None:
        self.plan = plan
        self.in_memory = in_memory
        self.known: dict[int, SsaValue] = {}
        self.epoch = epoch


class LoopScope:
    """The environment of loop variables of one function."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.static: dict[LoopVar, int] = {}
        self.dynamic: dict[LoopVar, Dynamic] = {}
        self.levels: list[LoopHeader] = []
        self.lane: LoopVar | None = None
        self.width = 0
        self.lane_step = 1
        # plans by identity of the form, for each vector loop; valid until a loop begins or ends
        self._all_plans: dict[LoopVar | None, dict[tuple[int, int], Plan]] = {}
        self.plans: dict[tuple[int, int], Plan] = {}
        self._pointers: dict[tuple[Buffer, Terms], str] = {}
        self.epoch = 0

    def invalidate(self) -> None:
        """Dynamic variables have changed: forget all plans and pointers."""
        self._all_plans.clear()
        self._pointers.clear()
        self.plans = self._all_plans.setdefault(self.lane, {})
        self.epoch += 1

    @contextmanager
    def narrowed(self, index: Affine, low: int, high: int) -> Iterator[None]:
        """Code where ``low <= index <= high``; used where the index is one variable."""
        var = lone_variable(index)
        if var is None:
            yield
            return
        known = self.dynamic[var]
        self.dynamic[var] = replace(known, low=max(known.low, low), high=min(known.high, high))
        self.invalidate()
        yield
        self.dynamic[var] = known
        self.invalidate()

    def enter_lanes(self, lane: LoopVar | None, width: int, step: int) -> None:
        """Set the vector loop (None: scalar code)."""
        self.lane, self.width, self.lane_step = lane, width, step
        self.plans = self._all_plans.setdefault(lane, {})

    def plan(self, index: Affine, scale: int = 1) -> Plan:
        """The plan of ``index * scale``, made once per place."""
        key = (id(index), scale)
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = self._make_plan(index, scale)
        return plan

    def _make_plan(self, index: Affine, scale: int) -> Plan:
        static, dynamic, lane = [], [], 0
        for var, coefficient in index.terms:
            if var in self.static:
                static.append((var, coefficient * scale))
            elif var is self.lane:
                lane += coefficient * scale * self.lane_step
            else:
                dynamic.append((var, coefficient * scale))
        terms = tuple(dynamic)
        low, high = self.interval(Form(terms, lane, 0))
        return Plan(index, index.const * scale, tuple(static), terms, lane, low, high)

    def push(self) -> None:
        """Enter a loop: its prologue is written here."""
        self.levels.append(LoopHeader(self.writer.part()))

    def pop(self) -> None:
        """Leave a loop."""
        self.levels.pop()

    def resolve(self, index: Affine, scale: int = 1) -> Form:
        """``index * scale`` with the static variables put in."""
        plan = self.plan(index, scale)
        return Form(plan.dynamic, plan.lane, plan.value(self.static))

    def bounds(self, index: Affine) -> tuple[int, int]:
        """Least and largest value of a form, over all lanes."""
        plan = self.plan(index)
        value = plan.value(self.static)
        return plan.low + value, plan.high + value

    def interval(self, form: Form) -> tuple[int, int]:
        """Least and largest value, over all lanes."""
        low, high = bounds(form.const, form.dynamic, self._range)
        lanes = form.lane * (self.width - 1)
        return low + min(lanes, 0), high + max(lanes, 0)

    def _range(self, var: LoopVar) -> Interval:
        known = self.dynamic[var]
        return known.low, known.high

    def _sorted(self, terms: Terms) -> Terms:
        if len(terms) < 2:
            return terms
        return tuple(sorted(terms, key=lambda term: self.dynamic[term[0]].level))

    def hoist(self, level: int, key: Hashable, text: str) -> str:
        """Write ``text`` into the prologue of a level, once per ``key``."""
        place = self.levels[level]
        name = place.cache.get(key)
        if name is None:
            name = place.cache[key] = self.writer.fresh("h")
            place.prologue.append(f"  {name} = {text}")
        return name

    def level_of(self, terms: Terms) -> int:
        """The innermost level that a sum depends on."""
        return max((self.dynamic[var].level for var, _ in terms), default=0)

    def _term(self, var: LoopVar, coefficient: int) -> str:
        known = self.dynamic[var]
        if coefficient == 1:
            return known.ref
        return self.hoist(
            known.level, ("mul", var, coefficient), f"mul nsw i64 {known.ref}, {coefficient}"
        )

    def _sum(self, terms: Terms) -> str:
        var, coefficient = terms[-1]
        last = self._term(var, coefficient)
        if len(terms) == 1:
            return last
        rest = self._sum(terms[:-1])
        return self.hoist(self.dynamic[var].level, ("sum", terms), f"add nsw i64 {rest}, {last}")

    def scalar(self, terms: Terms, const: int) -> str:
        """An i64 operand with the value of a sum."""
        if not terms:
            return str(const)
        ordered = self._sorted(terms)
        total = self._sum(ordered)
        if const == 0:
            return total
        level = self.level_of(terms)
        return self.hoist(level, ("const", ordered, const), f"add nsw i64 {total}, {const}")

    def pointer(self, buffer: Buffer, base: str, terms: Terms) -> str:
        """The address of ``base`` plus a sum of bytes."""
        if not terms:
            return base
        key = (buffer, terms)
        known = self._pointers.get(key)
        if known is None:
            known = self._pointers[key] = self._pointer(buffer, base, self._sorted(terms))
        return known

    def _pointer(self, buffer: Buffer, base: str, terms: Terms) -> str:
        if not terms:
            return base
        var, coefficient = terms[-1]
        rest, known = self._pointer(buffer, base, terms[:-1]), self.dynamic[var]
        step = f"[{coefficient} x i8], ptr {rest}, i64 {known.ref}"
        if coefficient < 0:
            step = f"i8, ptr {rest}, i64 {self._term(var, coefficient)}"
        return self.hoist(known.level, (buffer, terms), f"getelementptr {step}")

    def in_range(self, terms: Terms, const: int, low: int, high: int) -> str:
        """An i1: ``low <= sum < high``.

        Args:
            terms: variables and their coefficients.
            const: added to their sum.
            low: least value, included.
            high: largest value, included.
        """
        ordered = self._sorted(terms)
        level = self.level_of(terms)
        least, most = self.interval(Form(terms, 0, const))
        if least >= low:
            total = self.scalar(terms, 0)
            return self.hoist(
                level, ("slt", ordered, high - const), f"icmp slt i64 {total}, {high - const}"
            )
        if most < high:
            total = self.scalar(terms, 0)
            return self.hoist(
                level, ("sge", ordered, low - const), f"icmp sge i64 {total}, {low - const}"
            )
        shifted, values = self.scalar(terms, const - low), max(0, high - low)
        return self.hoist(
            level, ("ult", ordered, low - const, values), f"icmp ult i64 {shifted}, {values}"
        )

    def in_ranges(self, ranges: list[tuple[Form, int, int]]) -> tuple[str, int]:
        """An i1: all of ``low <= form < high``; and the level where it is known."""
        level, result = -1, ""
        for form, low, high in ranges:
            condition = self.in_range(form.dynamic, form.const, low, high)
            deepest = max(level, self.level_of(form.dynamic))
            if level < 0:
                result = condition
            elif condition != result:
                result = self.hoist(
                    deepest, ("and", result, condition), f"and i1 {result}, {condition}"
                )
            level = deepest
        return result, level

    def spread(self, condition: str, level: int) -> str:
        """A condition as a mask of all lanes, written at the level where it is known."""
        kind = f"<{self.width} x i1>"
        first = self.hoist(
            level,
            ("first", condition, self.width),
            f"insertelement {kind} poison, i1 {condition}, i64 0",
        )
        return self.hoist(
            level,
            ("spread", condition, self.width),
            f"shufflevector {kind} {first}, {kind} poison, <{self.width} x i32> zeroinitializer",
        )
