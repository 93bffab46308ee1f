"""Programs as text, in the field's notation: ``C(i, j) += A[i, k]*B[k, j]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sketch.lang.expr import Axis, Binary, Cast, Const, Expr, Load, Reduce, Select, Unary, Var
from sketch.lang.rewrite import children
from sketch.lang.tensor import Compute, Placeholder

if TYPE_CHECKING:
    from sketch.dag.dag import ComputeDAG

_SYMBOLS: Final = {
    "add": (" + ", 4), "sub": (" - ", 4), "mul": ("*", 5), "div": ("/", 5),
    "floordiv": (" // ", 5), "mod": (" % ", 5),
    "lt": (" < ", 3), "le": (" <= ", 3), "gt": (" > ", 3), "ge": (" >= ", 3),
    "eq": (" == ", 3), "ne": (" != ", 3), "and": (" and ", 2), "or": (" or ", 1),
}  # fmt: skip
_REDUCE_SIGNS: Final = {"sum": "+=", "prod": "*="}


def print_dag(dag: ComputeDAG) -> str:
    """One line for each input and stage, in execution order."""
    lines = [_placeholder_line(t.op) for t in dag.inputs if isinstance(t.op, Placeholder)]
    return "\n".join([*lines, *(stage_line(op) for op in dag.stages)])


def _placeholder_line(op: Placeholder) -> str:
    kind = "constant" if op.constant else "placeholder"
    shape = ", ".join(str(extent) for extent in op.shape)
    return f"{op.name} = {kind} [{shape}] {op.dtype}"


def stage_line(op: Compute) -> str:
    """``C(i, j) += A[i, k]*B[k, j]  # i 512, j 512, k 512``."""
    axes = ", ".join(axis.name for axis in op.axes)
    body = op.bodies[0]
    if isinstance(body, Reduce):
        name = body.reducer.name
        sign = _REDUCE_SIGNS.get(name, f"{name}=")
        text = _tuple([print_expr(source) for source in body.sources])
    else:
        sign, text = "=", _tuple([print_expr(value) for value in op.bodies])
    extents = ", ".join(f"{axis.name} {axis.extent}" for axis in op.all_axes)
    note = f"  # {extents}" if extents else ""
    return f"{op.name}({axes}) {sign} {text}{_store_text(op)}{note}"


def _store_text(op: Compute) -> str:
    if op.store is None:
        return ""
    terms = [
        axis.name if stride == 1 else f"{stride}*{axis.name}"
        for axis, stride in zip(op.axes, op.store.strides, strict=True)
    ]
    if op.store.offset or not terms:
        terms.append(str(op.store.offset))
    shape = ", ".join(str(extent) for extent in op.store.buffer.shape)
    return f" -> {op.store.buffer.name}[{shape}] at {' + '.join(terms)}"


def _tuple(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def print_expr(node: Expr) -> str:
    """An expression as text, with the fewest parentheses that keep its meaning."""
    return _text(node, 0)


def _text(node: Expr, outer: int) -> str:
    match node:
        case Axis(name, _, _) | Var(name, _):
            return name
        case Const(value, dtype):
            return _constant_text(value, dtype)
        case Load(tensor, indices):
            return f"{tensor.name}[{', '.join(_text(index, 0) for index in indices)}]"
        case Binary(op, lhs, rhs, _) if op in _SYMBOLS:
            symbol, level = _SYMBOLS[op]
            # The right operand of equal level keeps its parentheses: a - (b - c), a + (b + c).
            text = f"{_text(lhs, level)}{symbol}{_text(rhs, level + 1)}"
            return f"({text})" if level < outer else text
        case Unary("neg", operand, _):
            return f"-{_text(operand, 6)}"
        case _:
            return f"{_call_name(node)}({', '.join(_text(part, 0) for part in children(node))})"


def _call_name(node: Expr) -> str:
    match node:
        case Binary(op, _, _, _) | Unary(op, _, _):
            return op
        case Select():
            return "select"
        case Cast(_, dtype):
            return dtype
        case _:
            return type(node).__name__.lower()


def _constant_text(value: float | int | bool, dtype: str) -> str:
    if dtype == "bool":
        return "true" if value else "false"
    text = f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
    return f"({text})" if text.startswith("-") and "inf" not in text else text
