"""Machine code that runs block code: one loop over operations, one vector loop for each kind of
them.

An operation is five int32: its number and 256 times how many rows of lanes it is about, and the
bytes where the first rows of the target and of three operands start; one of more than a row has
four more, the bytes from row to row.  A row holds 64 lanes of eight
bytes: float64, int64, or flags as the integers 0 and 1.  The text is given to LLVM as it is, in
vectors, so that nothing is left to optimise and the whole takes milliseconds.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

from costmodel.machine_code import machine_code

LANES: Final = 64
ROW_BYTES: Final = 8 * LANES
FIELDS: Final = 5
STEPS: Final = 4
ROWS: Final = 256
_WIDTH: Final = 16

Run = Callable[[int, int, int, int, int], None]


@dataclass(frozen=True, slots=True)
class _Form:
    """How one kind of operation is written in LLVM's language.

    Attributes:
        loads: types of what is read from the operands, in order.
        body: lines that make ``z`` of ``x``, ``y`` and ``w``; ``F``, ``I``, ``M`` and ``S`` are the
            types of float64, int64, flags and float32.
        result: type of ``z``; None: the body stores it.
        width: lanes at a time.
    """

    loads: str
    body: str
    result: str | None
    width: int = _WIDTH


def _two(instruction: str, kind: str) -> _Form:
    return _Form(kind * 2, f"%z = {instruction} {kind} %x, %y", kind)


def _compare(condition: str, kind: str) -> _Form:
    instruction = "fcmp" if kind == "F" else "icmp"
    body = f"%m = {instruction} {condition} {kind} %x, %y\n%z = zext M %m to I"
    return _Form(kind * 2, body, "I")


def _extreme(condition: str) -> _Form:
    """As NumPy: not a number if either is, the second of two equal ones."""
    return _Form(
        "FF",
        f"%m = fcmp {condition} F %x, %y\n%n = fcmp uno F %x, %x\n"
        "%o = or M %m, %n\n%z = select M %o, F %x, F %y",
        "F",
    )


def _extreme_integer(condition: str) -> _Form:
    body = f"%m = icmp {condition} I %x, %y\n%z = select M %m, I %x, I %y"
    return _Form("II", body, "I")


def _store(conversion: str, source: str, result: str) -> _Form:
    """A row of the results, which is as many bytes from the next as the caller says."""
    halved = "\n%g = lshr i64 %i, 1" if result == "S" else "\n%g = add i64 %i, 0"
    return _Form(
        source,
        f"%z = {conversion}{halved}\n%h = mul i64 %t.first, %pitch\n%o = add i64 %g, %h\n"
        f"%p = getelementptr i8, ptr %out, i64 %o\nstore {result} %z, ptr %p, align 4",
        None,
    )


# As NumPy: 0 where the divisor is, no trap for the lowest number divided by -1.
_DIVIDED: Final = (
    "%m = icmp eq I %y, 0\n%n = icmp eq I %y, -1\n%o = or M %m, %n\n"
    "%d = select M %o, I 1, I %y\n%q = sdiv I %x, %d\n%v = mul I %q, %d\n%h = sub I %x, %v\n"
    "%s = xor I %h, %d\n%f = icmp slt I %s, 0\n%e = icmp ne I %h, 0\n%a = and M %e, %f\n"
)
_QUOTIENT: Final = (
    "%c = sext M %a to I\n%j = add I %q, %c\n%k = sub I 0, %x\n%l = select M %n, I %k, I %j\n"
    "%z = select M %m, I 0, I %l"
)
# As ``quantity.power_of_two``.
_POWER_OF_TWO: Final = (
    "%m = fptosi F %x to I\n%n = fptosi F %y to I\n%o = or I %m, %n\n"
    "%k = sub I zeroinitializer, %o\n%a = and I %o, %k\n%z = sitofp I %a to F"
)
# A number that stands in the operation itself.
_NUMBER: Final = (
    "%e = insertelement I poison, i64 {}, i64 0\n"
    f"%v = shufflevector I %e, I poison, <{_WIDTH} x i32> zeroinitializer\n"
)
# Rows beyond the last are read as the first: no code reads any.
_GATHERED: Final = (
    "%m = icmp ult i64 %x, %c.first\n%k = select M %m, i64 %x, i64 0\n"
    f"%o = mul i64 %k, {ROW_BYTES}\n%q = add i64 %o, %i\n"
    "%p = getelementptr i8, ptr %b0, i64 %q\n%z = load F, ptr %p, align 8"
)
_FORMS: Final = {
    "copy": _Form("F", "%z = select i1 true, F %x, F %x", "F"),
    "real": _Form("I", "%z = sitofp I %x to F", "F"),
    "ceil": _Form("F", "%z = call F @llvm.ceil.v16f64(F %x)", "F"),
    "negative F": _Form("F", "%z = fneg F %x", "F"),
    "negative I": _Form("I", "%z = sub I zeroinitializer, %x", "I"),
    "add F": _two("fadd", "F"),
    "subtract F": _two("fsub", "F"),
    "multiply F": _two("fmul", "F"),
    "divide F": _two("fdiv", "F"),
    "minimum F": _extreme("olt"),
    "maximum F": _extreme("ogt"),
    "greater F": _compare("ogt", "F"),
    "greater_equal F": _compare("oge", "F"),
    "equal F": _compare("oeq", "F"),
    "add I": _two("add", "I"),
    "subtract I": _two("sub", "I"),
    "multiply I": _two("mul", "I"),
    "floor_divide I": _Form("II", _DIVIDED + _QUOTIENT, "I", 1),
    "minimum I": _extreme_integer("slt"),
    "maximum I": _extreme_integer("sgt"),
    "greater I": _compare("sgt", "I"),
    "greater_equal I": _compare("sge", "I"),
    "equal I": _compare("eq", "I"),
    "power_of_two F": _Form("FF", _POWER_OF_TWO, "F"),
    "bitwise_and I": _two("and", "I"),
    "bitwise_or I": _two("or", "I"),
    "where": _Form("IFF", "%m = trunc I %x to M\n%z = select M %m, F %y, F %w", "F"),
    "fill": _Form("", _NUMBER.format("%a.first") + "%z = select i1 true, I %v, I %v", "I"),
    "fill where": _Form(
        "II",
        _NUMBER.format("%c.first") + "%m = trunc I %x to M\n%z = select M %m, I %v, I %y",
        "I",
    ),
    "gather": _Form("I", _GATHERED, "F", 1),
    "store 4 F": _store("fptrunc F %x to S", "F", "S"),
    "store 4 I": _store("sitofp I %x to S", "I", "S"),
    "store 8 F": _store("select i1 true, F %x, F %x", "F", "F"),
    "store 8 I": _store("sitofp I %x to F", "I", "F"),
}
OPERATIONS: Final = {name: number for number, name in enumerate(_FORMS)}

_ENTRY: Final = """
declare <16 x double> @llvm.ceil.v16f64(<16 x double>)
define void @run(ptr %code, i64 %count, ptr %memory, ptr %out, i64 %pitch) {
entry:
  br label %next
next:
  %at = phi ptr [ %code, %entry ], [ %after, %end ]
  %left = phi i64 [ %count, %entry ], [ %fewer, %end ]
"""
_POINTERS: Final = "tabc"
_NAMES: Final = re.compile(r"%([a-z])\b(?!\.)")
_TYPES: Final = re.compile(r"(?<![%\w])([FIMS])(?!\w)")
_EXIT: Final = f"""
step:
  %rest = sub i64 %r, 1
  {{}}
  %again = icmp ne i64 %rest, 0
  br i1 %again, label %row, label %end
end:
  %several = icmp ugt i64 %rows, 1
  %size = select i1 %several, i64 {4 * (FIELDS + STEPS)}, i64 {4 * FIELDS}
  %after = getelementptr i8, ptr %at, i64 %size
  %fewer = sub i64 %left, 1
  %more = icmp ne i64 %fewer, 0
  br i1 %more, label %next, label %done
done:
  ret void
}}}}
""".format("\n".join(f"%{x}q = getelementptr i8, ptr %{x}p, i64 %{x.upper()}" for x in _POINTERS))


def _rows() -> str:
    """The fields, then a loop over rows, whose places are ``tp`` and so on, the steps ``T``."""
    lines = ["%kind = load i32, ptr %at", f"%number = urem i32 %kind, {ROWS}"]
    lines += [f"%rows.n = udiv i32 %kind, {ROWS}", "%rows = zext i32 %rows.n to i64"]
    names = [*(f"{x}.first" for x in _POINTERS), *_POINTERS.upper()]
    for place, name in enumerate(names, start=1):
        lines.append(f"%{name}.p = getelementptr i32, ptr %at, i64 {place}")
        lines.append(f"%{name}.n = load i32, ptr %{name}.p")
        lines.append(f"%{name} = sext i32 %{name}.n to i64")
    lines += [f"%{x}0 = getelementptr i8, ptr %memory, i64 %{x}.first" for x in _POINTERS]
    lines += ["br label %row", "row:", "%r = phi i64 [ %rows, %next ], [ %rest, %step ]"]
    lines += [f"%{x}p = phi ptr [ %{x}0, %next ], [ %{x}q, %step ]" for x in _POINTERS]
    cases = " ".join(f"i32 {number}, label %k{number}" for number in OPERATIONS.values())
    return "\n".join([*lines, f"switch i32 %number, label %end [ {cases} ]"])


def _case(k: str, form: _Form) -> str:
    """The loop over the lanes of a row for one kind of operation."""
    lines = [f"{k}:", f"br label %{k}.lane", f"{k}.lane:"]
    lines.append(f"%i = phi i64 [ 0, %{k} ], [ %{k}.far, %{k}.lane ]")
    size = 8 * form.width
    for value, x, kind in zip("xyw", _POINTERS[1:], form.loads, strict=False):
        lines.append(f"%{k}.{x}l = getelementptr i8, ptr %{x}p, i64 %i")
        lines.append(f"%{value} = load {kind}, ptr %{k}.{x}l, align {min(size, 64)}")
    lines.append(form.body)
    if form.result is not None:
        lines.append(f"%{k}.tl = getelementptr i8, ptr %tp, i64 %i")
        lines.append(f"store {form.result} %z, ptr %{k}.tl, align {min(size, 64)}")
    lines += [f"%{k}.far = add i64 %i, {size}", f"%{k}.on = icmp ult i64 %{k}.far, {ROW_BYTES}"]
    lines.append(f"br i1 %{k}.on, label %{k}.lane, label %step")
    text = _NAMES.sub(lambda found: f"%{k}.{found[1]}", "\n".join(lines))
    types = {"F": "double", "I": "i64", "M": "i1", "S": "float"}
    if form.width > 1:
        types = {x: f"<{form.width} x {scalar}>" for x, scalar in types.items()}
    return _TYPES.sub(lambda found: types[found[1]], text)


@cache
def machine() -> Run:
    """The machine code, made once in a process for the processor that it runs on."""
    cases = [_case(f"k{OPERATIONS[name]}", form) for name, form in _FORMS.items()]
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    text = "\n".join([_ENTRY, _rows(), *cases, _EXIT])
    return machine_code(text, "run", (pointer, number, pointer, pointer, number), optimised=False)
