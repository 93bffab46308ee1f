"""Loops, branches and private buffers of one function."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import replace

from codegen.llvm.carried import Carried
from codegen.llvm.claims import emit_claim
from codegen.llvm.evaluator import Cell, ExpressionEmitter
from codegen.llvm.flow import Flow
from codegen.llvm.registers import register_cells, written_buffers
from codegen.llvm.scope import Dynamic
from codegen.llvm.statements import Statements
from codegen.llvm.tile_statements import TileStatements
from codegen.llvm.turned_blocks import TurnedBlocks
from codegen.llvm.unrolled_copies import UnrolledCopies, is_plain_vector
from codegen.llvm.values import SSA_TYPES, Form, SsaValue
from codegen.passes.rewrite import Nodes
from sketch.lang.affine import Interval
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Branch,
    Buffer,
    Loop,
    LoopKind,
    LoopVar,
    Predicate,
    Scope,
    Store,
)
from sketch.nest.walk import stores


class Loops:
    """Emits nodes; ``place`` gives the base pointer of a private buffer that is in memory."""

    def __init__(
        self,
        flow: Flow,
        evaluator: ExpressionEmitter,
        statements: Statements,
        tiles: TileStatements,
        cell_limit: int,
    ) -> None:
        self.flow, self.evaluator, self.statements = flow, evaluator, statements
        self.scope, self.writer = evaluator.scope, evaluator.writer
        self.tiles = tiles
        self.cell_limit = cell_limit
        self.copies = UnrolledCopies(statements)
        self.turned = TurnedBlocks(statements, self.counted, self.emit)
        self.private: list[Buffer] = []
        self.private_bases: dict[Buffer, str] = {}

    def emit(self, nodes: Nodes) -> None:
        """A sequence of nodes."""
        for node in nodes:
            kind = type(node)  # this is the inner loop of the emitter: no pattern matching
            if kind is Store:
                self.statements.emit(node)  # type: ignore[arg-type]
            elif kind is Loop:
                self._emit_loop(node)  # type: ignore[arg-type]
            elif kind is Allocate:
                self._allocate(node)  # type: ignore[arg-type]
            else:
                self._branch(node)  # type: ignore[arg-type]

    # private buffers

    def _allocate(self, node: Allocate) -> None:
        buffer, evaluator = node.buffer, self.evaluator
        if buffer.scope is Scope.TILE:
            self.tiles.allocate(buffer)
            self.emit(node.body)
            return
        self.tiles.forget()
        cells = register_cells(buffer, node.body, self.scope.static, self.cell_limit)
        if cells is None:
            evaluator.memory.bases[buffer] = self.private_base(buffer)
            self.emit(node.body)
            return
        for offset, width in cells.items():
            zero = "zeroinitializer" if width else _zero(buffer.dtype)
            evaluator.cells[buffer, offset] = SsaValue(zero, buffer.dtype, width)
        self.emit(node.body)
        for offset in cells:
            evaluator.cells.pop((buffer, offset), None)

    def private_base(self, buffer: Buffer) -> str:
        """The pointer of a private buffer; its definition is written by the function."""
        base = self.private_bases.get(buffer)
        if base is None:
            base = self.private_bases[buffer] = f"%local{len(self.private)}"
            self.private.append(buffer)
        return base

    # loops

    def _emit_loop(self, loop: Loop) -> None:
        if loop.fetch:
            with self.evaluator.memory.prefetches.inside(loop.fetch):
                self._emit_loop(replace(loop, fetch=()))
            return
        if not loop.clip:
            self._emit_trips(loop, [])
            return
        constant, bounds = self._split_clip(loop)
        self._guarded(constant, lambda: self._emit_trips(loop, bounds))

    def _guarded(self, predicates: list[Predicate], emit: Callable[[], None]) -> None:
        """``emit`` under predicates that are the same for all of it."""
        tests = self._undecided(predicates)
        if tests is None:
            return
        if not tests:
            emit()
            return
        with self.flow.when(self.scope.in_ranges(tests)[0]):
            emit()

    def emit_clipped(self, predicates: list[Predicate], body: Nodes) -> None:
        """``body``, skipped where a predicate fails."""
        self._guarded(predicates, lambda: self.emit(body))

    def _emit_trips(self, loop: Loop, bounds: list[Predicate]) -> None:
        if loop.kind is LoopKind.UNROLLED:
            self._unrolled(loop, bounds)
        elif loop.kind is LoopKind.VECTORIZED:
            self._vectorized(loop)
        elif loop.kind is LoopKind.TENSOR:
            self._tensor(loop)
        elif bounds or not self.turned.emit(loop):
            self._dynamic(loop, bounds)

    @staticmethod
    def _split_clip(loop: Loop) -> tuple[list[Predicate], list[Predicate]]:
        """Clip predicates without and with the loop's own variable."""
        constant: list[Predicate] = []
        bounds: list[Predicate] = []
        for predicate in loop.clip:
            own = predicate.index.coefficient(loop.var)
            (bounds if own else constant).append(predicate)
        return constant, bounds

    def _undecided(self, predicates: list[Predicate]) -> list[tuple[Form, int, int]] | None:
        tests: list[tuple[Form, int, int]] = []
        for predicate in predicates:
            form = self.scope.resolve(predicate.index)
            low, high = self.scope.interval(form)
            if high < predicate.low or low >= predicate.high or predicate.never:
                return None
            if low < predicate.low or high >= predicate.high:
                tests.append((form, predicate.low, predicate.high))
        return tests

    def _unrolled(self, loop: Loop, bounds: list[Predicate]) -> None:
        if not bounds and self.copies.emit(loop):
            return
        static, emit = self.scope.static, self.emit
        body, outer = loop.body, (self.scope.lane, self.scope.width, self.scope.lane_step)
        if len(body) == 1 and isinstance(lanes := body[0], Loop) and is_plain_vector(lanes):
            # most code is made here: the lanes are entered once for all trips
            self.scope.enter_lanes(lanes.var, int(lanes.extent), int(lanes.stride))
            body = lanes.body
        for value in range(0, int(loop.extent) * int(loop.stride), int(loop.stride)):
            static[loop.var] = value
            if loop.axis_kind == "reduce" and value:
                self.evaluator.memory.prefetches.keep_apart()
            if bounds:
                self.emit_clipped(bounds, body)
            else:
                emit(body)
        static.pop(loop.var, None)
        self.scope.enter_lanes(*outer)

    def _vectorized(self, loop: Loop) -> None:
        if loop.axis_kind == "reduce":
            ((store, _),) = stores((loop,))
            self.statements.emit(store, loop)
            return
        scope = self.scope
        outer = scope.lane, scope.width, scope.lane_step
        scope.enter_lanes(loop.var, int(loop.extent), int(loop.stride))
        self.emit(loop.body)
        scope.enter_lanes(*outer)

    def _tensor(self, loop: Loop) -> None:
        """One instruction on tile registers."""
        ((store, inside),) = stores((loop,))
        emit = self.tiles.emit
        self._guarded(list(store.predicates), lambda: emit(inside, store))

    def _dynamic(self, loop: Loop, bounds: list[Predicate]) -> None:
        extent = int(loop.extent)
        low, high = _Bound(0, "0"), _Bound(extent, str(extent))
        for predicate in bounds:
            start, end = self._trip_bounds(loop, predicate)
            if start is not None:
                low = self._extreme("smax", low, start)
            if end is not None:
                high = self._extreme("smin", high, end)
        if low.least >= high.most:
            return
        if low.most < high.least:
            self._counted(loop, low, high)
            return
        nonempty = self.writer.emit_free(f"icmp slt i64 {low.ref}, {high.ref}")
        with self.flow.when(nonempty):
            self._counted(loop, low, high)

    def _trip_bounds(self, loop: Loop, predicate: Predicate) -> tuple[_Bound | None, _Bound | None]:
        """First trip and end (exclusive) that a clip predicate allows; None: no restriction."""
        own = predicate.index.coefficient(loop.var)
        step = own * int(loop.stride)
        rest = Affine(
            tuple(t for t in predicate.index.terms if t[0] is not loop.var), predicate.index.const
        )
        form = self.scope.resolve(rest)
        if step > 0:
            # low <= step*t + rest < high
            start, end = (-1, predicate.low), (-1, predicate.high)
        else:
            # t <= (rest - low) / |step|, t > (rest - high) / |step|
            start, end = (1, 1 - predicate.high), (1, 1 - predicate.low)
        every = 0, int(loop.extent)
        return (
            self._ceil_div(form, *start, abs(step), lambda bound: bound[1] > every[0]),
            self._ceil_div(form, *end, abs(step), lambda bound: bound[0] < every[1]),
        )

    def _ceil_div(
        self, form: Form, sign: int, const: int, divisor: int, binds: Callable[[Interval], bool]
    ) -> _Bound | None:
        """``ceil((sign * form + const) / divisor)``; None where its bounds say that it is nothing
        new.
        """
        terms = tuple((var, sign * c) for var, c in form.dynamic)
        total = Form(terms, 0, sign * form.const + const + divisor - 1)
        low, high = self.scope.interval(total)
        least, most = low // divisor, high // divisor
        if not binds((least, most)):
            return None
        if least == most:
            return _Bound(least, str(least), least)
        ref = self.scope.scalar(terms, total.const)
        if divisor > 1:
            ref = self._floor_div(ref, divisor)
        return _Bound(least, ref, most)

    def _floor_div(self, ref: str, divisor: int) -> str:
        if divisor & (divisor - 1) == 0:
            return self.writer.emit_free(f"ashr i64 {ref}, {divisor.bit_length() - 1}")
        text = self.evaluator.arithmetic.binary("floordiv", "int64", 0, ref, str(divisor))
        self.writer.instructions -= 1
        return text

    def _extreme(self, name: str, lhs: _Bound, rhs: _Bound) -> _Bound:
        pick = max if name == "smax" else min
        least, most = pick(lhs.least, rhs.least), pick(lhs.most, rhs.most)
        if least == most:
            return _Bound(least, str(least), least)
        full = f"llvm.{name}.i64"
        self.writer.declare(full, "i64 {}(i64, i64)")
        ref = self.writer.emit_free(f"call i64 @{full}(i64 {lhs.ref}, i64 {rhs.ref})")
        return _Bound(least, ref, most)

    def _counted(self, loop: Loop, low: _Bound, high: _Bound) -> None:
        """A do-while loop over values ``low*stride <= v < high*stride``; at least one trip."""
        stride = int(loop.stride)
        first, last = self._scaled(low.ref, stride), self._scaled(high.ref, stride)
        known = (low.least * stride, (high.most - 1) * stride)
        self.counted(
            loop.var,
            first,
            last,
            stride,
            known,
            written_buffers(loop.body),
            lambda: self._trip(loop),
        )

    def _trip(self, loop: Loop) -> None:
        if loop.claim is not None:
            emit_claim(loop.claim, self.evaluator.memory, self.flow)
        self.emit(loop.body)

    def _scaled(self, ref: str, stride: int) -> str:
        if not ref.startswith("%"):
            return str(int(ref) * stride)
        if stride == 1:
            return ref
        return self.writer.emit_free(f"mul nsw i64 {ref}, {stride}")

    def counted(
        self,
        var: LoopVar,
        first: str,
        last: str,
        stride: int,
        known: tuple[int, int],
        written: AbstractSet[Buffer],
        emit_body: Callable[[], None],
    ) -> None:
        """``for var = first; var < last; var += stride`` with at least one trip.

        Args:
            var: the loop's variable.
            first: SSA name of its first value.
            last: SSA name of its end, not included.
            stride: step of a trip.
            known: the variable's least and largest value.
            written: buffers that the body stores to.
            emit_body: writes the body.
        """
        writer, evaluator = self.writer, self.evaluator
        before = writer.block
        header, leave = writer.label("loop"), writer.label("exit")
        writer.branch(header)
        self.flow.open_block(header)
        carried = Carried(evaluator, written)
        index = writer.fresh("i")
        self.scope.push()
        self.scope.dynamic[var] = Dynamic(index, len(self.scope.levels) - 1, *known, stride)
        self.scope.invalidate()
        emit_body()
        self.scope.pop()
        del self.scope.dynamic[var]
        self.scope.invalidate()
        after = writer.fresh("i")
        writer.lines.append(f"  {after} = add nsw i64 {index}, {stride}")
        more = writer.emit_free(f"icmp slt i64 {after}, {last}")
        writer.branch_if(more, header, leave)
        latch = writer.block
        phi = f"  {index} = phi i64 [{first}, %{before}], [{after}, %{latch}]"
        carried.close(phi, before, latch)
        self.flow.open_block(leave)

    # branches

    def _branch(self, node: Branch) -> None:
        form = self.scope.resolve(node.index)
        low, high = self.scope.interval(form)
        cases = [c for c in node.cases if c.low <= high and c.high >= low]
        paths: list[tuple[str, dict[Cell, SsaValue]]] = []
        join = self.writer.label("join")
        for position, case in enumerate(cases):
            last = position == len(cases) - 1
            following = join
            if not last:
                following = self.writer.label("next")
                inside = self.scope.in_range(form.dynamic, form.const, case.low, case.high + 1)
                then = self.writer.label("case")
                self.writer.branch_if(inside, then, following)
                self.flow.open_block(then)
            cells = dict(self.evaluator.cells)
            with self.scope.narrowed(node.index, case.low, case.high):
                self.emit(case.body)
            paths.append((self.writer.block, self.evaluator.cells))
            self.writer.branch(join)
            self.evaluator.cells = cells
            if not last:
                self.flow.open_block(following)
        self.flow.open_block(join)
        if paths:
            self.flow.merge(paths)


class _Bound:
    """A trip number: its operand, its least and largest value."""

    __slots__ = ("least", "most", "ref")

    def __init__(self, least: int, ref: str, most: int | None = None) -> None:
        self.least = least
        self.ref = ref
        self.most = least if most is None else most


def _zero(dtype: str) -> str:
    return {"float": "0.0", "double": "0.0", "i1": "false"}.get(SSA_TYPES[dtype], "0")
