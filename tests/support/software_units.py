"""Instructions of joint units written in LLVM's own operators: any machine runs code that has them.

What Arm's manual says of each, lane by lane.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from codegen.build import prepare
from codegen.host import cpu_target
from codegen.kernel import SYMBOL, Kernel, argument_of
from codegen.llvm.machine import emit_object
from codegen.llvm.module import emit_module
from codegen.llvm.unit_calls import UNIT_CALLS
from sketch.lang.dtypes import is_float, is_unsigned
from sketch.lower import lower
from sketch.schedule.sketch import Sketch
from sketch.target.target import Target
from sketch.target.units import UNITS, TensorUnit
from tests.support.compiled import packed_inputs
from tests.support.guard_pages import run_guarded

JOINT = tuple(unit for unit in UNITS if unit.joint)
PLAIN = cpu_target("cpu-sse2", 1)
"""Vectors as wide as those of the units."""
_LOST = (1 << 29) - 1  # digits that float32 has less than float64


def run_in_software(
    sketch: Sketch, row: Mapping[str, int], inputs: Mapping[str, np.ndarray], target: Target
) -> dict[str, np.ndarray]:
    """The outputs of code for ``target``, whose units are functions; between guard pages."""
    nest = prepare(lower(sketch, row), target)
    module = emit_module(nest, target, SYMBOL, "")
    code = emit_object(with_functions(module.text), PLAIN)
    arguments = tuple(argument_of(buffer) for buffer in nest.arguments)
    kernel = Kernel(nest.name, SYMBOL, code, arguments, module.workspace_bytes, PLAIN, 0)
    return run_guarded(kernel, packed_inputs(sketch, row, inputs))


def with_functions(text: str) -> str:
    """The module with a definition of each joint instruction that it declares."""
    for unit in JOINT:
        name = UNIT_CALLS[unit.name].name
        lines = text.splitlines()
        if any(line.startswith("declare") and f"@{name}(" in line for line in lines):
            kept = (x for x in lines if not (x.startswith("declare") and f"@{name}(" in x))
            text = "\n".join([*kept, _function(unit)]).replace(f"@{name}(", f"@{unit.name}(")
    return text


def _function(unit: TensorUnit) -> str:
    call = UNIT_CALLS[unit.name]
    body = _float_body if is_float(unit.acc) else _int_body
    return "\n".join([
        f"define internal {call.acc} @{unit.name}({call.acc} %c, {call.operand} %a, "
        f"{call.operand} %b) {{",
        *body(unit, call.operand),
        f"  ret {call.acc} %r{unit.m * unit.n}",
        "}",
    ])  # fmt: skip


def _int_body(unit: TensorUnit, operand: str) -> list[str]:
    lines, k = ["  %r0 = bitcast <4 x i32> %c to <4 x i32>"], unit.k
    for lane in range(4):
        for name, first, dtype in (("a", lane // 2, unit.lhs), ("b", lane % 2, unit.rhs)):
            order = ", ".join(f"i32 {first * k + n}" for n in range(k))
            wide = "zext" if is_unsigned(dtype) else "sext"
            lines += [
                f"  %{name}{lane} = shufflevector {operand} %{name}, {operand} poison, "
                f"<{k} x i32> <{order}>",
                f"  %w{name}{lane} = {wide} <{k} x i8> %{name}{lane} to <{k} x i32>",
            ]
        lines += [
            f"  %p{lane} = mul <{k} x i32> %wa{lane}, %wb{lane}",
            f"  %o{lane} = extractelement <4 x i32> %c, i32 {lane}",
        ]
        total = f"%o{lane}"
        for n in range(k):
            lines += [
                f"  %e{lane}.{n} = extractelement <{k} x i32> %p{lane}, i32 {n}",
                f"  %s{lane}.{n} = add i32 {total}, %e{lane}.{n}",
            ]
            total = f"%s{lane}.{n}"
        lines.append(f"  %r{lane + 1} = insertelement <4 x i32> %r{lane}, i32 {total}, i32 {lane}")
    return lines


def _float_body(unit: TensorUnit, operand: str) -> list[str]:
    """Sums of float64 are exact here, if numbers are near each other."""
    lines = ["  %r0 = bitcast <4 x float> %c to <4 x float>"]
    for lane in range(4):
        lines += [
            f"  %o{lane} = extractelement <4 x float> %c, i32 {lane}",
            f"  %t{lane}.0 = fpext float %o{lane} to double",
        ]
        for pair in range(unit.k // 2):
            for n in (2 * pair, 2 * pair + 1):
                for name, first in (("a", lane // 2), ("b", lane % 2)):
                    lines += [
                        f"  %{name}{lane}.{n} = extractelement {operand} %{name}, "
                        f"i32 {first * unit.k + n}",
                        f"  %w{name}{lane}.{n} = bitcast bfloat %{name}{lane}.{n} to i16",
                        f"  %z{name}{lane}.{n} = zext i16 %w{name}{lane}.{n} to i32",
                        f"  %x{name}{lane}.{n} = shl i32 %z{name}{lane}.{n}, 16",
                        f"  %f{name}{lane}.{n} = bitcast i32 %x{name}{lane}.{n} to float",
                        f"  %d{name}{lane}.{n} = fpext float %f{name}{lane}.{n} to double",
                    ]
                lines.append(f"  %p{lane}.{n} = fmul double %da{lane}.{n}, %db{lane}.{n}")
            first, second = f"%p{lane}.{2 * pair}", f"%p{lane}.{2 * pair + 1}"
            lines += _rounded(f"q{lane}.{pair}", first, second)
            lines += _rounded(f"t{lane}.{pair + 1}", f"%t{lane}.{pair}", f"%q{lane}.{pair}")
        lines += [
            f"  %n{lane} = fptrunc double %t{lane}.{unit.k // 2} to float",
            f"  %r{lane + 1} = insertelement <4 x float> %r{lane}, float %n{lane}, i32 {lane}",
        ]
    return lines


def _rounded(name: str, lhs: str, rhs: str) -> list[str]:
    """A sum of float64, rounded to odd as a float32."""
    return [
        f"  %{name}.e = fadd double {lhs}, {rhs}",
        f"  %{name}.b = bitcast double %{name}.e to i64",
        f"  %{name}.l = and i64 %{name}.b, {_LOST}",
        f"  %{name}.i = icmp ne i64 %{name}.l, 0",
        f"  %{name}.o = select i1 %{name}.i, i64 {_LOST + 1}, i64 0",
        f"  %{name}.h = and i64 %{name}.b, {~_LOST}",
        f"  %{name}.r = or i64 %{name}.h, %{name}.o",
        f"  %{name} = bitcast i64 %{name}.r to double",
    ]
