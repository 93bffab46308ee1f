"""Statements: predicates to guards, values to registers or memory."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.llvm.addresses import ALWAYS, Guard, lane_constants
from codegen.llvm.evaluator import Cell, ExpressionEmitter
from codegen.llvm.flow import Flow
from codegen.llvm.unit_calls import UNIT_CALLS, unit_call
from codegen.llvm.values import Form, SsaValue, mask_literal, type_text
from sketch.lang.affine import fits
from sketch.lang.dtypes import is_float, size_of
from sketch.lang.expr import Binary, Expr, Reducer
from sketch.lang.reducers import is_sum
from sketch.nest.loopnest import Buffer, Loop, Predicate, Store


@dataclass(slots=True)
class Tests:
    """What is left of a statement's predicates."""

    scalar: list[tuple[Form, int, int]]
    lanes: list[bool] | None
    masks: list[str]


class Statements:
    """Emits single instances of statements."""

    def __init__(self, flow: Flow, evaluator: ExpressionEmitter) -> None:
        self.flow = flow
        self.evaluator = evaluator
        self.scope, self.memory = evaluator.scope, evaluator.memory
        self.writer, self.arithmetic = evaluator.writer, evaluator.arithmetic
        self.across: Loop | None = None

    def emit(self, store: Store, across: Loop | None = None) -> None:
        """One instance, with the loop variables as they are in the scope.

        ``across``: the loop whose trips are lanes that the statement reduces to one value.
        """
        self.across = across
        if not store.predicates:
            self._emit_guarded(store, ALWAYS)
            return
        tests = self.tests(store.predicates)
        if tests is None:
            return
        mask = self.mask(tests)
        if not tests.scalar:
            self._emit_guarded(store, ALWAYS if mask is None else Guard(None, mask))
            return
        condition, level = self.scope.in_ranges(tests.scalar)
        if store.targets[0] not in self.memory.bases:
            spread = self.scope.spread(condition, level) if self.scope.width else None
            self._emit_guarded(store, Guard(condition, mask, spread))
            return
        with self.flow.when(condition):
            self._emit_guarded(store, Guard(None, mask) if mask is not None else ALWAYS)

    def decided(self, predicates: tuple[Predicate, ...]) -> bool | None:
        """Whether predicates hold for an instance, in all of its lanes; None where it depends."""
        tests = self.tests(predicates)
        if tests is None:
            return False
        return None if tests.scalar or tests.lanes is not None or tests.masks else True

    def tests(self, predicates: tuple[Predicate, ...]) -> Tests | None:
        """The undecided part of the predicates, None where one fails."""
        tests = Tests([], None, [])
        scope = self.scope
        for predicate in predicates:
            plan = scope.plan(predicate.index)
            value = plan.value(scope.static)
            low, high = value + plan.low, value + plan.high
            if low >= predicate.low and high < predicate.high:
                continue
            if high < predicate.low or low >= predicate.high or predicate.never:
                return None
            form = Form(plan.dynamic, plan.lane, value)
            if form.lane:
                self._lane_test(tests, form, predicate)
            else:
                tests.scalar.append((form, predicate.low, predicate.high))
        if tests.lanes is not None and not any(tests.lanes):
            return None
        return tests

    def _lane_test(self, tests: Tests, form: Form, predicate: Predicate) -> None:
        width = self.scope.width
        verdicts: list[bool] = []
        for lane in range(width):
            low, high = self.scope.interval(Form(form.dynamic, 0, form.const + lane * form.lane))
            inside = low >= predicate.low and high < predicate.high
            if not inside and not (high < predicate.low or low >= predicate.high):
                tests.masks.append(self._dynamic_mask(form, predicate))
                return
            verdicts.append(inside)
        known = tests.lanes or [True] * width
        tests.lanes = [a and b for a, b in zip(known, verdicts, strict=True)]

    def _dynamic_mask(self, form: Form, predicate: Predicate) -> str:
        """``low <= form < high`` for each lane, as one unsigned comparison."""
        width = self.scope.width
        least, most = self.scope.interval(form)
        first, end = max(predicate.low, least), min(predicate.high, most + 1)
        base = self.scope.scalar(form.dynamic, form.const - first)
        element = "i32" if fits((least - most, most - least), "int32") else "i64"
        kind = f"<{width} x {element}>"
        if element == "i32":
            base = self.memory.cached(("i32", base), f"trunc i64 {base} to i32")
        uniform = self.memory.splat(base, element, width)
        steps = lane_constants(form.lane, width).replace("i64 ", f"{element} ")
        value = self.memory.cached(("lanes", uniform, form.lane), f"add {kind} {uniform}, {steps}")
        bound = max(0, end - first)
        return self.memory.cached(
            ("mask", value, bound), f"icmp ult {kind} {value}, splat ({element} {bound})"
        )

    def mask(self, tests: Tests) -> str | None:
        """The lanes in which they hold; None: in all."""
        mask: str | None = None
        if tests.lanes is not None and not all(tests.lanes):
            mask = mask_literal(tuple(tests.lanes))
        for other in tests.masks:
            mask = other if mask is None else self.memory.both(mask, other, self.scope.width)
        return mask

    def _emit_guarded(self, store: Store, guard: Guard) -> None:
        evaluator = self.evaluator
        evaluator.begin(guard)
        cells = [evaluator.cell(target, store.indices) for target in store.targets]
        values = self._values(store, cells)
        for target, cell, value in zip(store.targets, cells, values, strict=True):
            if cell is None:
                self.store(target, store, value, guard)
            else:
                self.put(cell, value, guard)

    def _values(self, store: Store, cells: list[Cell | None]) -> list[SsaValue]:
        evaluate = self.evaluator.evaluate
        reducer = store.reducer
        if reducer is None:
            return [evaluate(value) for value in store.values]
        old = [
            self.evaluator.load(target, store.indices)
            if cell is None
            else self.evaluator.cells[cell]
            for target, cell in zip(store.targets, cells, strict=True)
        ]
        if len(old) > 1:  # what is kept of one may depend on another
            self.evaluator.names_read.update(value.ref for value in old)
        if self.across is not None:
            return self._combined(reducer, old, self._of_lanes(store, reducer, self.across))
        if is_sum(reducer):
            return [self._accumulate(old[0], store.values[0])]
        return self._combined(reducer, old, [evaluate(value) for value in store.values])

    def _combined(
        self, reducer: Reducer, old: list[SsaValue], new: list[SsaValue]
    ) -> list[SsaValue]:
        """Both as the reducer combines them."""
        pairs = zip((*reducer.lhs, *reducer.rhs), (*old, *new), strict=True)
        if reducer.skips_nan:
            return [self._of_numbers(reducer.result[0], *old, *new)]
        self.evaluator.begin(self.evaluator.guard)  # forget what other operands gave
        self.evaluator.bindings = dict(pairs)
        return [self.evaluator.evaluate(result) for result in reducer.result]

    def _of_numbers(self, extremum: Expr, old: SsaValue, new: SsaValue) -> SsaValue:
        """The larger or smaller one; of a NaN and a number, ``new`` the NaN, the number."""
        assert isinstance(extremum, Binary)
        term = self.evaluator.materialise(new)
        width = max(old.width, term.width)
        operand = self.evaluator.operand
        ref = self.arithmetic.extremum_of_numbers(
            extremum.op, old.dtype, width, operand(old, width), operand(term, width)
        )
        return SsaValue(ref, old.dtype, width)

    def _of_lanes(self, store: Store, reducer: Reducer, lanes: Loop) -> list[SsaValue]:
        """The values of all lanes, reduced: the upper half with the lower one, and so on."""
        scope, outer = self.scope, (self.scope.lane, self.scope.width, self.scope.lane_step)
        width = int(lanes.extent)
        scope.enter_lanes(lanes.var, width, int(lanes.stride))
        values = [self.evaluator.evaluate(value) for value in store.values]
        while width > 1:
            width //= 2
            scope.enter_lanes(None, width if width > 1 else 0, 0)
            low = [self._lanes(value, 0, width) for value in values]
            high = [self._lanes(value, width, width) for value in values]
            values = self._combined(reducer, low, high)
        scope.enter_lanes(*outer)
        return values

    def _lanes(self, value: SsaValue, first: int, count: int) -> SsaValue:
        """Some neighbouring lanes of a vector; one is a scalar."""
        kind = type_text(value.dtype, value.width)
        if count == 1:
            ref = self.writer.emit_free(f"extractelement {kind} {value.ref}, i64 {first}")
            return SsaValue(ref, value.dtype)
        order = ", ".join(f"i32 {lane}" for lane in range(first, first + count))
        text = f"shufflevector {kind} {value.ref}, {kind} poison, <{count} x i32> <{order}>"
        return SsaValue(self.writer.emit_free(text), value.dtype, count)

    def _accumulate(self, old: SsaValue, term: Expr) -> SsaValue:
        """``old + term``; products are fused, those by a literal 1 or -1 need no product."""
        evaluator = self.evaluator
        if isinstance(term, Binary) and term.op in UNIT_CALLS:
            return self._unit(old, term)
        if not is_float(old.dtype) or not isinstance(term, Binary) or term.op != "mul":
            return self.plus("add", old, evaluator.evaluate(term))
        return self.plus_product(old, evaluator.evaluate(term.lhs), evaluator.evaluate(term.rhs))

    def plus_product(self, old: SsaValue, lhs: SsaValue, rhs: SsaValue) -> SsaValue:
        """``old + lhs * rhs`` of floats."""
        if lhs.const is not None or rhs.const is not None:
            simple = self._accumulate_literal(old, lhs, rhs)
            if simple is not None:
                return simple
        width = max(old.width, lhs.width, rhs.width)
        operand = self.evaluator.operand
        ref = self.arithmetic.fma(
            old.dtype, width, operand(lhs, width), operand(rhs, width), operand(old, width)
        )
        return SsaValue(ref, old.dtype, width)

    def _unit(self, old: SsaValue, term: Binary) -> SsaValue:
        """``old`` and what an instruction of a tensor unit adds to it."""
        operand, width = self.evaluator.operand, self.scope.width
        lhs, rhs = self.evaluator.evaluate(term.lhs), self.evaluator.evaluate(term.rhs)
        operands = (operand(old, width), operand(lhs, width), operand(rhs, width))
        return SsaValue(unit_call(self.writer, term.op, operands), old.dtype, width)

    def _accumulate_literal(self, old: SsaValue, lhs: SsaValue, rhs: SsaValue) -> SsaValue | None:
        """``old + lhs * rhs`` where a factor is 1 or -1."""
        for factor, other in ((lhs, rhs), (rhs, lhs)):
            if factor.const in (1.0, -1.0):
                return self.plus("add" if factor.const == 1.0 else "sub", old, other)
        return None

    def plus(self, op: str, old: SsaValue, term: SsaValue) -> SsaValue:
        """``old + term``, or the difference."""
        if term.const == 0 and is_float(old.dtype):
            return old
        if old.const == 0 and op == "add" and is_float(old.dtype):
            return term
        term = self.evaluator.materialise(term)
        width = max(old.width, term.width)
        ref = self.arithmetic.binary(
            op,
            old.dtype,
            width,
            self.evaluator.operand(old, width),
            self.evaluator.operand(term, width),
        )
        return SsaValue(ref, old.dtype, width)

    def put(self, cell: Cell, value: SsaValue, guard: Guard) -> None:
        """Put a value into a register cell, only where the guard holds."""
        cells, dtype = self.evaluator.cells, cell[0].dtype
        kept = value.ref and value.width == self.scope.width and value.dtype == dtype
        if kept and guard is ALWAYS:
            cells[cell] = value
            return
        old = cells[cell]
        width = self.scope.width
        ref = self.evaluator.operand(self.evaluator.convert(value, cell[0].dtype), width)
        if guard is not ALWAYS and ref != old.ref:
            # a scalar condition on vectors would become a branch
            mask = self.memory.full_mask(guard, width) if width else guard.condition
            assert mask is not None
            ref = self.arithmetic.select(
                cell[0].dtype, width, mask, ref, self.evaluator.operand(old, width)
            )
        cells[cell] = SsaValue(ref, cell[0].dtype, width)

    def store(self, target: Buffer, store: Store, value: SsaValue, guard: Guard) -> None:
        """Store a value to memory, where a statement does.

        Args:
            target: one of the statement's.
            store: the statement.
            value: of all lanes.
            guard: when.
        """
        ref = self.evaluator.operand(self.evaluator.convert(value, target.dtype), self.scope.width)
        form, extra = self.evaluator.offsets.of(target, store.indices, size_of(target.dtype))
        self.memory.store(target, form, extra, ref, guard)
