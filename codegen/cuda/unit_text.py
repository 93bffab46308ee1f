"""CUDA C++ of the tensor units of warps: inline PTX, and what an emulator does in its place.

PTX ISA, "Warp-level matrix instructions": ``mma.sync`` and ``ldmatrix``.
"""

from __future__ import annotations

from typing import Final

from codegen.cuda.unit_types import OPERANDS, RESULTS, unit_function
from sketch.target.units import UNITS, TensorUnit

# What a thread has in a register of an operand, and matrices of a warp.
LOADS: Final = """\
template <class T> __device__ inline int load_word(const T *first) { return *(const int *)first; }
template <class T> __device__ inline int join(T a, T b) {
  return (unsigned)(unsigned short)a | (unsigned)(unsigned short)b << 16;
}
template <class T> __device__ inline int join(T a, T b, T c, T d) {
  return (unsigned)(unsigned char)a | (unsigned)(unsigned char)b << 8 |
         (unsigned)(unsigned char)c << 16 | (unsigned)(unsigned char)d << 24;
}
"""


def _matrices() -> str:
    """``load_matrices``: each lane says where one of 8, 16 or 32 rows of 16 bytes starts."""
    lines = [
        "#ifdef __CUDA_ARCH__",
        "template <int N, int Turned, class T>",
        "__device__ inline void load_matrices(int *to, const T *row) {",
        "  const unsigned place = (unsigned)__cvta_generic_to_shared(row);",
    ]
    for count in (1, 2, 4):
        for turned, word in enumerate(("", ".trans")):
            registers = ", ".join(f"%{n}" for n in range(count))
            written = ", ".join(f'"=r"(to[{n}])' for n in range(count))
            lines += [
                f"  if constexpr (N == {count} && Turned == {turned})",
                f'    asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{word}.shared.b16 "',
                f'                 "{{{registers}}}, [%{count}];"',
                f'                 : {written} : "r"(place) : "memory");',
            ]
    return "\n".join([*lines, "}", "#endif", ""])


MATRICES: Final = _matrices()


def unit_parts() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The definition of the function of each unit of warps, and its name."""
    known = (unit for unit in UNITS if unit.fragments is not None and not unit.reads_shared)
    return tuple((_definition(unit), (unit_function(unit),)) for unit in known)


# Registers of a thread to the numbers that are multiplied; the same again costs nothing.
_ROUNDED: Final = """\
  int a[{lhs}], b[{rhs}];
#pragma unroll
  for (int n = 0; n < {lhs}; ++n)
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(a[n]) : "f"(__int_as_float(lhs[n])));
#pragma unroll
  for (int n = 0; n < {rhs}; ++n)
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(b[n]) : "f"(__int_as_float(rhs[n])));
"""


def _definition(unit: TensorUnit) -> str:
    assert unit.fragments is not None
    lhs, rhs, acc = (fragment.registers for fragment in unit.fragments)
    (first, one), (second, other) = OPERANDS[unit.lhs], OPERANDS[unit.rhs]
    total, kind, letter = RESULTS[unit.acc]
    name, shape = unit_function(unit), f"m{unit.m}n{unit.n}k{unit.k}"
    results = ", ".join(f"%{n}" for n in range(acc))
    operands = [
        ", ".join(f"%{n}" for n in range(start, start + count))
        for start, count in ((acc, lhs), (acc + lhs, rhs))
    ]
    written = ", ".join(f'"+{letter}"(acc[{n}])' for n in range(acc))
    rounded = _ROUNDED.format(lhs=lhs, rhs=rhs) if unit.rounds else ""
    given = ("a", "b") if unit.rounds else ("lhs", "rhs")
    read = [
        ", ".join(f'"r"({side}[{n}])' for n in range(count))
        for side, count in zip(given, (lhs, rhs), strict=True)
    ]
    return f"""\
#ifdef __CUDA_ARCH__
__device__ inline void {name}({kind} *acc, const int *lhs, const int *rhs) {{
{rounded}\
  asm volatile("mma.sync.aligned.{shape}.row.col.{total}.{first}.{second}.{total} "
               "{{{results}}}, {{{operands[0]}}}, {{{operands[1]}}}, {{{results}}};"
               : {written}
               : {read[0]},
                 {read[1]});
}}
#else
template <class C, class L, class R> inline void {name}(C acc, L lhs, R rhs) {{
  emulator::multiply_together<{one}, {other}, {kind}, {rhs}>(acc, lhs, rhs);
}}
#endif
"""
