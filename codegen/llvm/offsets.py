"""Where an element lies in its buffer: what loops decide, and what only the run knows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from codegen.llvm import forms
from codegen.llvm.arithmetic import Arithmetic
from codegen.llvm.dependence import Dependence
from codegen.llvm.lane_patterns import lane_pattern
from codegen.llvm.memory import Memory
from codegen.llvm.scope import LoopScope
from codegen.llvm.values import Form, SsaValue, type_text
from codegen.passes.affine import flatten
from sketch.lang.expr import Expr
from sketch.nest.loopnest import Affine, Buffer, Index, Quasi

# A form, and a part (i64) that is none.
Offset = tuple[Form, SsaValue | None]
_Part = tuple[Expr, int]


class OperandValues(Protocol):
    """What evaluates expressions at the current point of a function."""

    scope: LoopScope
    memory: Memory
    arithmetic: Arithmetic

    def evaluate(self, expr: Expr) -> SsaValue: ...

    def convert(self, value: SsaValue, dtype: str) -> SsaValue: ...

    def both(self, lhs: SsaValue, rhs: SsaValue) -> tuple[int, str, str]: ...


class Offsets:
    """Offsets of accesses.  Index tuples are known by their identity: the nest keeps them alive."""

    def __init__(self, values: OperandValues, dependence: Dependence) -> None:
        self._values, self._dependence = values, dependence
        self._flat: dict[tuple[Buffer, int], tuple[Affine, tuple[tuple[Quasi, int], ...]]] = {}

    def flattened(
        self, buffer: Buffer, indices: tuple[Index, ...]
    ) -> tuple[Affine, tuple[tuple[Quasi, int], ...]]:
        """The flat offset: an affine part, and others with their factors."""
        key = (buffer, id(indices))
        flat = self._flat.get(key)
        if flat is None:
            flat = self._flat[key] = flatten(buffer, indices)
        return flat

    def of(self, buffer: Buffer, indices: tuple[Index, ...], scale: int) -> Offset:
        """The flat offset times ``scale``: a form, and a run-time part where there is one."""
        return self._sum(*self._parts(buffer, indices, scale))

    def of_read(self, buffer: Buffer, indices: tuple[Index, ...], scale: int) -> Offset:
        """``of`` for reads, whose lanes may lie in a known pattern."""
        form, parts = self._parts(buffer, indices, scale)
        differ = [self._differs(expr) for expr, _ in parts]
        if not any(differ):
            return self._sum(form, parts)
        lanes = [part for part, own in zip(parts, differ, strict=True) if own]
        known = lane_pattern(self._values.scope, form, lanes)
        if known is None:
            return self._sum(form, parts)
        common = [part for part, own in zip(parts, differ, strict=True) if not own]
        moved, extra = self._sum(known._replace(pattern=()), common)
        return moved._replace(pattern=known.pattern), extra

    def _parts(
        self, buffer: Buffer, indices: tuple[Index, ...], scale: int
    ) -> tuple[Form, list[_Part]]:
        affine, quasi = self.flattened(buffer, indices)
        parts = [(part.expr, stride * scale) for part, stride in quasi]
        return self._values.scope.resolve(affine, scale), parts

    def _sum(self, form: Form, parts: Iterable[_Part]) -> Offset:
        """``form + sum(expression * factor)``."""
        extra: SsaValue | None = None
        for expr, factor in parts:
            value = self._values.evaluate(expr)
            if value.form is not None:
                form = forms.add(form, forms.scale(value.form, factor))
            else:
                extra = self._added(extra, value, factor)
        return form, extra

    def _differs(self, expr: Expr) -> bool:
        """Whether it differs from lane to lane."""
        variables = self._dependence.variables(expr)
        if variables is None:
            return self._values.evaluate(expr).width > 0
        return self._values.scope.lane in variables

    def _added(self, extra: SsaValue | None, value: SsaValue, factor: int) -> SsaValue:
        values = self._values
        value = values.convert(value, "int64")
        width = value.width
        if factor != 1:
            literal_factor = values.arithmetic.splat(str(factor), "int64", width)
            text = f"mul {type_text('int64', width)} {value.ref}, {literal_factor}"
            value = SsaValue(values.memory.cached(text, text), "int64", width)
        if extra is None:
            return value
        width, lhs, rhs = values.both(extra, value)
        text = f"add {type_text('int64', width)} {lhs}, {rhs}"
        return SsaValue(values.memory.cached(text, text), "int64", width)
