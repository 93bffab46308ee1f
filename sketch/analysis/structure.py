"""The structural key of a program: equal for programs that differ in spelling only.

Canonical form: affine indices as sorted sums, operands of commutative operators sorted, ``a > b``
as ``b < a``, chains of ``and`` / ``or`` flattened, axes by position, axes of extent 1 as zero, all
names dropped.  Tensors are numbered in the order in which the canonical text first mentions them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sketch.analysis.access import affine_index, reads
from sketch.lang.dtypes import is_integer
from sketch.lang.expr import (
    Axis,
    Binary,
    Cast,
    Const,
    Expr,
    Load,
    Reduce,
    Reducer,
    Select,
    Unary,
    Var,
)
from sketch.lang.tensor import Compute, Operation, Placeholder, SharedBuffer, Tensor

_COMMUTATIVE: Final = (
    "add", "mul", "min", "max", "eq", "ne", "bit_and", "bit_or", "bit_xor",
)  # fmt: skip
_SWAPPED: Final = {"gt": "lt", "ge": "le"}

Names = Callable[[Tensor], str]


@dataclass(frozen=True, slots=True)
class StructuralForm:
    """The key of a program, sixteen hex digits, and its placeholders in canonical order.

    Programs of one key have corresponding placeholders at equal positions, whatever their names.
    """

    key: str
    inputs: tuple[Tensor, ...]


def structural_form(
    inputs: Sequence[Tensor], stages: Sequence[Compute], outputs: Sequence[Tensor]
) -> StructuralForm:
    """The canonical form; equal for equal programs in any process."""
    digests = _merkle(inputs, stages, _distinguishing_marks(inputs, stages, outputs))
    numbers: dict[int, int] = {}
    lines: list[str] = []

    def name(tensor: Tensor) -> str:
        return f"t{numbers[id(tensor.op)]}.{tensor.output}"

    # Each operation after everything it reads; reads are visited in an order free of names.
    pending: list[tuple[Operation, bool]] = [(tensor.op, False) for tensor in reversed(outputs)]
    while pending:
        op, expanded = pending.pop()
        if id(op) in numbers:
            continue
        if isinstance(op, Compute) and not expanded:
            pending.append((op, True))
            below = sorted(reads(op), key=lambda t: f"{digests[id(t.op)]}.{t.output}")
            pending.extend((tensor.op, False) for tensor in reversed(below))
            continue
        lines.append(_stage_text(op, name) if isinstance(op, Compute) else _input_text(op))
        numbers[id(op)] = len(numbers)

    buffers: dict[SharedBuffer, int] = {}
    lines.extend(_output_text(tensor, name, buffers) for tensor in outputs)
    ordered = sorted(inputs, key=lambda tensor: numbers[id(tensor.op)])
    return StructuralForm(_digest("\n".join(lines))[:16], tuple(ordered))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _input_text(op: Placeholder) -> str:
    origin = "" if op.prepared is None else f" {op.prepared}"
    return f"input {op.shape} {op.dtype} {'constant' if op.constant else 'variable'}{origin}"


def _output_text(tensor: Tensor, name: Names, buffers: dict[SharedBuffer, int]) -> str:
    store = tensor.op.store if isinstance(tensor.op, Compute) else None
    if store is None:
        return f"output {name(tensor)}"
    number = buffers.setdefault(store.buffer, len(buffers))
    return f"output {name(tensor)} b{number} {store.buffer.shape} {store.offset} {store.strides}"


def _merkle(
    inputs: Sequence[Tensor], stages: Sequence[Compute], marks: Mapping[int, str]
) -> dict[int, str]:
    """Per operation a digest of everything below it; placeholders differ by shape and mark."""
    digests: dict[int, str] = {}
    for tensor in inputs:
        if isinstance(tensor.op, Placeholder):
            digests[id(tensor.op)] = _digest(_input_text(tensor.op) + marks.get(id(tensor.op), ""))
    for op in stages:
        text = _stage_text(op, lambda t: f"{digests[id(t.op)]}.{t.output}")
        digests[id(op)] = _digest(text)
    return digests


def _distinguishing_marks(
    inputs: Sequence[Tensor], stages: Sequence[Compute], outputs: Sequence[Tensor]
) -> dict[int, str]:
    """Tell inputs of one shape apart by their role, so that commuting them changes nothing.

    The mark of an input is the digest of the program in which that input alone is special.  Equal
    marks mean interchangeable roles, and then their order does not show.
    """
    marks: dict[int, str] = {}
    for tensor in inputs:
        digests = _merkle(inputs, stages, {id(tensor.op): "*"})
        marks[id(tensor.op)] = _digest(" ".join(digests[id(t.op)] for t in outputs))
    return marks


def _stage_text(op: Compute, name: Names) -> str:
    return _Speller(op, name).stage()


class _Speller:
    """Writes one stage in canonical form."""

    def __init__(self, op: Compute, name: Names) -> None:
        self._op = op
        self._name = name
        live = [axis for axis in op.reduce_axes if axis.extent > 1]
        self._axes: dict[Axis, str] = {axis: f"s{d}" for d, axis in enumerate(op.axes)}
        self._axes.update({axis: f"r{d}" for d, axis in enumerate(live)})
        self._extents = [axis.extent for axis in live]
        self._vars: dict[int, str] = {}
        self._known: dict[int, str] = {}

    def stage(self) -> str:
        body = self._op.bodies[0]
        shape = str(self._op.shape)
        if not isinstance(body, Reduce):
            return f"stage {shape} {' ; '.join(self.spell(value) for value in self._op.bodies)}"
        sources = " ; ".join(self.spell(source) for source in body.sources)
        return f"reduce {shape} {self._extents} {self._reducer(body.reducer)} {sources}"

    def _reducer(self, reducer: Reducer) -> str:
        for side, variables in (("l", reducer.lhs), ("r", reducer.rhs)):
            self._vars.update({id(var): f"{side}{i}" for i, var in enumerate(variables)})
        parts = [*reducer.result, *reducer.identity]
        return f"<{' ; '.join(self.spell(part) for part in parts)}>"

    def spell(self, node: Expr) -> str:
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = self._spell(node)
        return known

    def _spell(self, node: Expr) -> str:
        form = affine_index(node) if is_integer(node.dtype) else None
        if form is not None:
            terms = sorted(f"{c}*{self._axes[a]}" for a, c in form[0].items() if a.extent > 1)
            return f"[{node.dtype} {'+'.join([*terms, str(form[1])])}]"
        match node:
            case Const(value, dtype):  # an integer that is too large for a form
                return f"[{dtype} {int(value)}]" if is_integer(dtype) else f"{dtype}:{value!r}"
            case Var():
                return self._vars[id(node)]
            case Load(tensor, indices):
                return f"{self._name(tensor)}[{','.join(self.spell(index) for index in indices)}]"
            case Binary():
                return self._binary(node)
            case Unary(op, operand, _):
                return f"{op}({self.spell(operand)})"
            case Cast(operand, dtype):
                return f"{dtype}({self.spell(operand)})"
            case Select(condition, then, otherwise):
                parts = (condition, then, otherwise)
                return f"select({','.join(self.spell(part) for part in parts)})"
            case _:
                raise AssertionError(f"unexpected node {type(node).__name__}")

    def _binary(self, node: Binary) -> str:
        if node.op in ("and", "or"):
            return f"{node.op}({','.join(sorted(self._chain(node, node.op)))})"
        operands = [self.spell(node.lhs), self.spell(node.rhs)]
        op = _SWAPPED.get(node.op, node.op)
        if op != node.op:
            operands.reverse()
        if op in _COMMUTATIVE:
            operands.sort()
        return f"{op}({','.join(operands)})"

    def _chain(self, node: Expr, op: str) -> list[str]:
        if isinstance(node, Binary) and node.op == op:
            return [*self._chain(node.lhs, op), *self._chain(node.rhs, op)]
        return [self.spell(node)]
