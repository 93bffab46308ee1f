"""CUDA C++ text of single statements: stores, and accesses of several elements at a time."""

from __future__ import annotations

from collections.abc import Sequence

from codegen.cuda.device import LoadFragment, Move, Multiply, MultiplyTiles
from codegen.cuda.expressions import Expressions
from codegen.cuda.names import Identifiers
from codegen.cuda.scalars import C_TYPES
from codegen.cuda.unit_types import unit_function
from codegen.gpu.alignment import WIDEST
from sketch.lang.dtypes import size_of
from sketch.lang.expr import Reducer, Var
from sketch.nest.loopnest import Buffer, Store


class StatementText:
    """Lines of a function, and how to write a statement."""

    def __init__(self) -> None:
        self._names = Identifiers()
        self._expressions = Expressions(self._names)
        self._lines: list[str] = []
        self._depth = 0

    def _line(self, text: str) -> None:
        self._lines.append("  " * self._depth + text)

    def _store(self, store: Store) -> None:
        guarded = bool(store.predicates)
        single = len(store.targets) == 1
        if guarded:
            brace = "" if single else " {"
            self._line(f"if ({self._expressions.all_hold(store.predicates)}){brace}")
            self._depth += 1
        elif not single:
            self._line("{")
            self._depth += 1
        if single:
            self._assign(store)
        else:
            self._assign_tuple(store)
        if guarded or not single:
            self._depth -= 1
        if not single:
            self._line("}")

    def _assign(self, store: Store) -> None:
        place = self._expressions.element(store.targets[0], store.indices)
        value = self._expressions.expr(store.values[0], {})
        if store.reducer is not None:
            value = self._reduced(store.reducer, place, value)
        self._line(f"{place} = {value};")

    def _move(self, node: Move) -> None:
        count, size = int(node.vector.size), size_of(node.vector.dtype)
        first = f"&{self._expressions.element(node.buffer, node.indices)}"
        vector = self._expressions.buffer(node.vector)
        shape = f"<{count}, {min(WIDEST, count * size)}>"
        call = f"load_piece{shape}({vector}, {first})"
        if not node.loads:
            call = f"store_piece{shape}({first}, {vector})"
        tests = self._expressions.all_hold(node.predicates)
        self._line(f"if ({tests}) {call};" if tests else f"{call};")

    def _gather(self, node: LoadFragment) -> None:
        place = f"{self._expressions.buffer(node.words)}[{self._expressions.affine(node.place)}]"
        elements = [self._expressions.element(s.buffer, s.indices) for s in node.sources]
        if node.matrices:
            shape = f"<{node.matrices}, {int(node.turned)}>"
            self._line(f"load_matrices{shape}(&{place}, &{elements[0]});")
        elif len(elements) == 1:
            self._line(f"{place} = load_word(&{elements[0]});")
        else:
            self._line(f"{place} = join({', '.join(elements)});")

    def _multiply(self, node: Multiply) -> None:
        results = self._expressions.element(node.acc, node.indices)
        operands = ((node.lhs, node.lhs_place), (node.rhs, node.rhs_place))
        places = [
            f"&{self._expressions.buffer(buffer)}[{self._expressions.affine(place)}]"
            for buffer, place in operands
        ]
        self._line(f"{unit_function(node.unit)}(&{results}, {', '.join(places)});")

    def _multiply_tiles(self, node: MultiplyTiles) -> None:
        results = self._expressions.element(node.acc, node.indices)
        tiles = [
            f"tile_at(&{self._expressions.plain_element(load.buffer, load.indices)})"
            for load in (node.lhs, node.rhs)
        ]
        self._line(f"{unit_function(node.unit)}(&{results}, {', '.join(tiles)});")

    def _results(self, acc: Buffer) -> str:
        """What says where all the private results of a thread are."""
        return f"<{int(acc.size)}>(&{self._expressions.buffer(acc)}[0])"

    def _reduced(self, reducer: Reducer, place: str, value: str) -> str:
        operands = {reducer.lhs[0]: place, reducer.rhs[0]: value}
        return self._expressions.expr(reducer.result[0], operands)

    def _assign_tuple(self, store: Store) -> None:
        """All values are computed before the first one is stored."""
        places = [self._expressions.element(t, store.indices) for t in store.targets]
        types = [C_TYPES[t.dtype] for t in store.targets]
        values = [self._expressions.expr(value, {}) for value in store.values]
        if store.reducer is not None:
            values = self._reduced_tuple(store.reducer, types, places, values)
        results = [self._define("result", *pair) for pair in zip(types, values, strict=True)]
        for place, result in zip(places, results, strict=True):
            self._line(f"{place} = {result};")

    def _reduced_tuple(
        self, reducer: Reducer, types: list[str], places: Sequence[str], values: Sequence[str]
    ) -> list[str]:
        operands: dict[Var, str] = {}
        for side, texts in ((reducer.lhs, places), (reducer.rhs, values)):
            for var, kind, text in zip(side, types, texts, strict=True):
                operands[var] = self._define(var.name, kind, text)
        return [self._expressions.expr(result, operands) for result in reducer.result]

    def _define(self, name: str, kind: str, value: str) -> str:
        """A constant of the C type ``kind`` for the rest of the block; its identifier."""
        fresh = self._names.fresh(name)
        self._line(f"const {kind} {fresh} = {value};")
        return fresh
