"""Operations of one execution of a store, by kind."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from costmodel.feature_table import OP_KINDS
from sketch.lang.dtypes import BOOL, is_float
from sketch.lang.expr import Binary, Cast, Const, Expr, Select, Unary
from sketch.lang.operator_names import ARITHMETIC, COMPARISON
from sketch.lang.rewrite import children
from sketch.nest.loopnest import AffineValue, BufferLoad, Store
from sketch.nest.walk import value_operands

_FLOAT_KIND = {
    "add": "float_add", "sub": "float_add", "mul": "float_mul", "div": "float_div",
    "min": "float_minmax", "max": "float_minmax", "pow": "float_math", "mod": "float_div",
    "floordiv": "float_div", "neg": "float_other", "abs": "float_other",
    "round_tf32": "float_other", "ordinal": "float_other",
}  # fmt: skip

# What one operation counts for: a fused multiply-add is two.
FLOPS = {
    kind: {"mac": 2.0, "int": 0.0, "bool": 0.0, "float_other": 0.0}.get(kind, 1.0)
    for kind in OP_KINDS
}


def is_index(node: Expr, known: dict[int, bool] | None = None) -> bool:
    """Whether a node only computes an index or compares indices (no data in it).

    ``known``: answers so far, by identity of the node.
    """
    known = {} if known is None else known
    found = known.get(id(node))
    if found is None:
        found = known[id(node)] = _is_index(node, known)
    return found


def _is_index(node: Expr, known: dict[int, bool]) -> bool:
    if isinstance(node, BufferLoad):
        return False
    parts = children(node)
    if not parts:
        return isinstance(node, AffineValue) or not is_float(node.dtype)
    return all(is_index(part, known) for part in parts)


@lru_cache(maxsize=64)  # asked again and again while one nest is looked at
def operation_counts(store: Store) -> Mapping[str, float]:
    """Operations of one execution by kind.

    Index arithmetic and guards over indices are not counted: they are hoisted or partitioned away.
    """
    counts = dict.fromkeys(OP_KINDS, 0.0)
    for value in store.values:
        _count(value, counts)
    if store.reducer is not None:
        for result in store.reducer.result:
            _count(result, counts)
        _fuse(store, counts)
    return counts


def _count(value: Expr, counts: dict[str, float]) -> None:
    """Add the operations of every distinct node.

    Where an index selects one of n terms, as a row of a constant matrix is selected, each counts
    for a part: what terms share is computed once for all n, where they are written out.
    """
    known: dict[int, bool] = {}
    seen: set[int] = set()
    pending: list[tuple[Expr, float]] = [(value, 1.0)]
    while pending:
        node, weight = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        terms = _selected_terms(node, known)
        if len(terms) > 2:
            pending += [(term, weight / len(terms)) for term in reversed(terms)]
            continue
        kind = _kind(node, known)
        if kind is not None:
            counts[kind] += weight
        pending += [(child, weight) for child in reversed(value_operands(node))]


def _selected_terms(node: Expr, known: dict[int, bool]) -> list[Expr]:
    """The terms of nested selects over indices, of which none is a constant."""
    terms: list[Expr] = []
    while isinstance(node, Select) and is_index(node.condition, known):
        terms.append(node.then)
        node = node.otherwise
    terms.append(node)
    return [] if any(isinstance(term, Const) for term in terms) else terms


def _kind(node: Expr, known: dict[int, bool]) -> str | None:
    match node:
        case Select(condition, _, _):
            return None if is_index(condition, known) else "select"
        case Binary() | Unary() | Cast():
            return None if is_index(node, known) else _arithmetic(node)
        case _:
            return None


def _arithmetic(node: Binary | Unary | Cast) -> str:
    if isinstance(node, Cast):
        return "float_other"
    operand = node.lhs if isinstance(node, Binary) else node.operand
    if node.op in COMPARISON:
        return "float_compare" if is_float(operand.dtype) else "int"
    if node.dtype == BOOL:
        return "bool"
    if not is_float(node.dtype):
        return "int"
    return _FLOAT_KIND.get(node.op, "float_math" if node.op not in ARITHMETIC else "float_other")


def _fuse(store: Store, counts: dict[str, float]) -> None:
    """A sum whose term is a product (perhaps guarded) is a fused multiply-add."""
    reducer = store.reducer
    if reducer is None or reducer.name != "sum" or not is_float(store.values[0].dtype):
        return
    term = store.values[0]
    while isinstance(term, Select) and is_index(term.condition):
        term = term.then
    if isinstance(term, Binary) and term.op == "mul":
        counts["mac"] += 1.0
        counts["float_add"] -= 1.0
        counts["float_mul"] -= 1.0


def flops(counts: Mapping[str, float]) -> float:
    """Floating-point operations of the counts."""
    return sum(FLOPS[kind] * number for kind, number in counts.items())
