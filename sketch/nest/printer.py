"""Stable text of a loop nest, for people and for golden tests.

def mm(A: float32[512, 512] input, ...)
parallel i0 in 0..512 step 14
local acc: float32[14, 32]
...
acc[i1, j1] sum= A[i0 + i1, k]*B[j0, k, j1]  if 0 <= i0 + i1 < 512
"""

from __future__ import annotations

from sketch.lang.affine import UNBOUNDED
from sketch.lang.expr import Binary, Cast, Const, Expr, Select, Unary, Var
from sketch.nest.loopnest import (
    Affine,
    AffineValue,
    Allocate,
    Branch,
    Buffer,
    BufferLoad,
    Index,
    Loop,
    LoopNest,
    LoopVar,
    Node,
    Predicate,
    Quasi,
    Scope,
    Store,
)

_SYMBOLS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "floordiv": "//",
    "mod": "%",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
    "and": "and",
    "or": "or",
}


def print_nest(nest: LoopNest) -> str:
    """The nest as indented text, the same for equal nests in every process."""
    arguments = ", ".join(f"{_buffer(buffer)} {buffer.scope.value}" for buffer in nest.arguments)
    lines = [f"def {nest.name}({arguments})"]
    lines += [f"  workspace {_buffer(buffer)}" for buffer in nest.workspaces]
    for root in nest.roots:
        _print_node(root, 1, lines)
    return "\n".join(lines) + "\n"


def _buffer(buffer: Buffer) -> str:
    shape = ", ".join(str(extent) for extent in buffer.shape)
    return f"{buffer.name}: {buffer.dtype}[{shape}]"


def _print_node(node: Node, depth: int, lines: list[str]) -> None:
    pad = "  " * depth
    match node:
        case Loop():
            lines.append(pad + _loop(node))
            _print_all(node.body, depth + 1, lines)
        case Allocate(buffer, body):
            held = "shared" if buffer.scope is Scope.SHARED else "local"
            lines.append(f"{pad}{held} {_buffer(buffer)}")
            _print_all(body, depth + 1, lines)
        case Branch(index, cases):
            lines.append(f"{pad}branch {print_affine(index)}")
            for case in cases:
                lines.append(f"{pad}  {case.low}..{case.high}:")
                _print_all(case.body, depth + 2, lines)
        case Store():
            lines.append(pad + _store(node))


def _print_all(nodes: tuple[Node, ...], depth: int, lines: list[str]) -> None:
    for node in nodes:
        _print_node(node, depth, lines)


def _loop(loop: Loop) -> str:
    end = int(loop.extent) * int(loop.stride)
    step = f" step {loop.stride}" if loop.stride != 1 else ""
    reduce = " reduce" if loop.axis_kind == "reduce" else ""
    clip = " clip " + " and ".join(map(_predicate, loop.clip)) if loop.clip else ""
    together = f" {loop.together} together" if int(loop.together) > 1 else ""
    fetch = "".join(f" fetch {buffer.name} + {ahead}" for buffer, ahead in loop.fetch)
    claim = "" if loop.claim is None else f" claim {loop.claim.buffer.name}"
    notes = f"{step}{together}{reduce}{clip}{fetch}{claim}"
    return f"{loop.kind.value} {loop.var.name} in 0..{end}{notes}"


def _store(store: Store) -> str:
    indices = ", ".join(map(_index, store.indices))
    targets = ", ".join(f"{target.name}[{indices}]" for target in store.targets)
    assign = f"{store.reducer.name}=" if store.reducer is not None else "="
    values = ", ".join(map(print_expr, store.values))
    tests = "  if " + " and ".join(map(_predicate, store.predicates)) if store.predicates else ""
    return f"{targets} {assign} {values}{tests}"


def _predicate(predicate: Predicate) -> str:
    low = "" if predicate.low == -UNBOUNDED else f"{predicate.low} <= "
    high = "" if predicate.high == UNBOUNDED else f" < {predicate.high}"
    return f"{low}{print_affine(predicate.index)}{high}"


def print_affine(form: Affine) -> str:
    """``i0 + 2*i1 - 1``."""
    text = ""
    for var, coefficient in form.terms:
        size = abs(coefficient)
        part = var.name if size == 1 else f"{size}*{var.name}"
        if not text:
            text = part if coefficient > 0 else f"-{part}"
        else:
            text += f" + {part}" if coefficient > 0 else f" - {part}"
    if not text:
        return str(form.const)
    if form.const:
        text += f" + {form.const}" if form.const > 0 else f" - {-form.const}"
    return text


def _index(index: Index) -> str:
    if isinstance(index, Quasi):
        return f"{print_expr(index.expr)} in {index.low}..{index.high}"
    return print_affine(index)


def print_expr(expr: Expr) -> str:
    """An expression of a nest, fully parenthesised."""
    match expr:
        case Const(value, _):
            return repr(value)
        case AffineValue(index):
            return f"({print_affine(index)})" if len(index.terms) > 1 else print_affine(index)
        case LoopVar() | Var():
            return expr.name
        case BufferLoad(buffer, indices):
            return f"{buffer.name}[{', '.join(map(_index, indices))}]"
        case Binary(op, lhs, rhs, _) if op in _SYMBOLS:
            return f"({print_expr(lhs)} {_SYMBOLS[op]} {print_expr(rhs)})"
        case Binary(op, lhs, rhs, _):
            return f"{op}({print_expr(lhs)}, {print_expr(rhs)})"
        case Unary(op, operand, _):
            return f"{op}({print_expr(operand)})"
        case Select(condition, then, otherwise):
            parts = ", ".join(map(print_expr, (condition, then, otherwise)))
            return f"select({parts})"
        case Cast(operand, dtype):
            return f"{dtype}({print_expr(operand)})"
        case _:
            return type(expr).__name__
