"""Arithmetic on integer forms: index expressions are folded before any code is written."""

from __future__ import annotations

from codegen.llvm.scope import LoopScope
from codegen.llvm.values import Form, SsaValue
from sketch.lang import affine
from sketch.lang.affine import add_terms, scale_terms
from sketch.lang.dtypes import INDEX_DTYPES


def add(lhs: Form, rhs: Form, sign: int = 1) -> Form:
    """``lhs + sign * rhs``."""
    dynamic = add_terms(lhs.dynamic, rhs.dynamic, sign)
    return Form(dynamic, lhs.lane + sign * rhs.lane, lhs.const + sign * rhs.const)


def scale(form: Form, factor: int) -> Form:
    """``form * factor``."""
    return Form(scale_terms(form.dynamic, factor), form.lane * factor, form.const * factor)


def is_constant(form: Form) -> bool:
    """Whether the form is a plain number."""
    return not form.dynamic and form.lane == 0


def fits(scope: LoopScope, form: Form, dtype: str) -> bool:
    """Whether the form is its own value as ``dtype``: a type of forms that does not wrap around."""
    return dtype in INDEX_DTYPES and affine.fits(scope.interval(form), dtype)


def in_short_lanes(scope: LoopScope, *values: SsaValue) -> tuple[SsaValue, ...]:
    """The values as int32 where that holds each of them and they differ from lane to lane.

    A register has twice as many of these lanes, and AVX2 has no conversion of longer ones.

    Args:
        scope: variables of the loops around.
        values: integers; others are left as they are.
    """
    known = [value.form for value in values if value.form is not None and not value.ref]
    if len(known) < len(values) or not any(form.lane for form in known):
        return values
    if not all(fits(scope, form, "int32") for form in known):
        return values
    return tuple(value._replace(dtype="int32") for value in values)


def divide(scope: LoopScope, form: Form, divisor: int) -> tuple[Form, Form] | None:
    """Quotient and remainder (floor) where both are forms, else None.

    The terms that the divisor divides make the quotient; the others must stay within one multiple.
    """
    whole = tuple((v, c // divisor) for v, c in form.dynamic if c % divisor == 0)
    rest = tuple((v, c) for v, c in form.dynamic if c % divisor)
    lane_whole = form.lane % divisor == 0
    remainder = Form(rest, 0 if lane_whole else form.lane, form.const)
    low, high = scope.interval(remainder)
    if low // divisor != high // divisor:
        return None
    base = low // divisor
    quotient = Form(whole, form.lane // divisor if lane_whole else 0, base)
    return quotient, Form(remainder.dynamic, remainder.lane, remainder.const - base * divisor)


def combine(scope: LoopScope, op: str, lhs: Form, rhs: Form) -> Form | None:
    """``op(lhs, rhs)`` as a form, or None where it is none.

    Args:
        scope: variables of the loops around.
        op: operator, as in expressions.
        lhs: left operand.
        rhs: right operand.
    """
    if op in ("add", "sub"):
        return add(lhs, rhs, 1 if op == "add" else -1)
    if op == "mul":
        if is_constant(rhs):
            return scale(lhs, rhs.const)
        return scale(rhs, lhs.const) if is_constant(lhs) else None
    if op in ("floordiv", "mod"):
        if not is_constant(rhs) or rhs.const <= 0:
            return None
        parts = divide(scope, lhs, rhs.const)
        return None if parts is None else parts[0 if op == "floordiv" else 1]
    if op in ("min", "max"):
        low, high = scope.interval(add(lhs, rhs, -1))
        if high <= 0:
            return lhs if op == "min" else rhs
        if low >= 0:
            return rhs if op == "min" else lhs
    return None


def compare(scope: LoopScope, op: str, lhs: Form, rhs: Form) -> bool | None:
    """The truth of a comparison, None where it depends on run-time values or on the lane.

    Args:
        scope: variables of the loops around.
        op: operator, as in expressions.
        lhs: left operand.
        rhs: right operand.
    """
    low, high = scope.interval(add(lhs, rhs, -1))
    verdicts = {
        "lt": (high < 0, low >= 0),
        "le": (high <= 0, low > 0),
        "gt": (low > 0, high <= 0),
        "ge": (low >= 0, high < 0),
        "eq": (low == high == 0, low > 0 or high < 0),
        "ne": (low > 0 or high < 0, low == high == 0),
    }
    yes, no = verdicts[op]
    return True if yes else False if no else None


def constant_lanes(scope: LoopScope, op: str, lhs: Form, rhs: Form) -> tuple[bool, ...] | None:
    """A comparison lane by lane, where each is decided.

    Args:
        scope: variables of the loops around, one of them the lane.
        op: operator, as in expressions.
        lhs: left operand.
        rhs: right operand.
    """
    difference = add(lhs, rhs, -1)
    if not difference.lane:
        return None
    lanes: list[bool] = []
    zero = Form((), 0, 0)
    for lane in range(scope.width):
        here = Form(difference.dynamic, 0, difference.const + lane * difference.lane)
        verdict = compare(scope, op, here, zero)
        if verdict is None:
            return None
        lanes.append(verdict)
    return tuple(lanes)
