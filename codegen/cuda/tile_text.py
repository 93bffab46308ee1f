"""CUDA C++ of the tensor units that read shared memory: inline PTX, and what an emulator does.

PTX ISA, "Asynchronous wgmma instructions".  An operand is rows of 128 bytes in shared memory whose
pieces of 16 bytes change places as "128-byte swizzle" has them, so 8 rows are 1024 bytes.
"""

from __future__ import annotations

from typing import Final

from codegen.cuda.unit_types import OPERANDS, RESULTS, unit_function
from sketch.lang.dtypes import size_of
from sketch.target.fragments import ROW_BYTES
from sketch.target.units import UNITS, TensorUnit

_GROUP_BYTES: Final = 8 * ROW_BYTES
# Fields of a matrix descriptor: addresses and distances are in units of 16 bytes.
_SWIZZLED: Final = 1 << 62
_ROWS_APART: Final = _GROUP_BYTES >> 4 << 32
_UNUSED: Final = 1 << 16
_TURNED_BYTES: Final = 2  # of elements that a unit can turn

# What orders products, and the address of an operand.
ORDER: Final = f"""\
#ifdef __CUDA_ARCH__
template <class T> __device__ inline unsigned long long tile_at(const T *first) {{
  const unsigned place = (unsigned)__cvta_generic_to_shared(first);
  return place >> 4 & 0x3fff | {hex(_SWIZZLED | _ROWS_APART | _UNUSED)}ull;
}}
__device__ inline void hold_one(float &result) {{ asm volatile("" : "+f"(result) :: "memory"); }}
__device__ inline void hold_one(int &result) {{ asm volatile("" : "+r"(result) :: "memory"); }}
template <int N, class T> __device__ inline void hold(T *results) {{
#pragma unroll
  for (int n = 0; n < N; ++n) hold_one(results[n]);
}}
template <int N, class T> __device__ inline void begin_products(T *results) {{
  hold<N>(results);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}}
__device__ inline void commit_products() {{
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}}
template <int N> __device__ inline void wait_products() {{
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory");
}}
__device__ inline void publish_stores() {{
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}}
#endif
"""
ORDERING: Final = (
    "tile_at", "hold", "begin_products", "commit_products", "wait_products", "publish_stores",
)  # fmt: skip


TILE_UNITS: Final = {unit_function(unit): unit for unit in UNITS if unit.reads_shared}
"""Units by the names of their functions."""


def tile_function(unit: TensorUnit) -> str:
    """The definition of the function of a unit."""
    assert unit.fragments is not None
    (first, one), (second, other) = OPERANDS[unit.lhs], OPERANDS[unit.rhs]
    total, kind, letter = RESULTS[unit.acc]
    count, name = unit.fragments[2].registers, unit_function(unit)
    results = ", ".join(f"%{n}" for n in range(count))
    written = ", ".join(f'"+{letter}"(acc[{n}])' for n in range(count))
    shape = f"m{unit.m}n{unit.n}k{unit.k}"
    # added to what there is; of floats: neither operand negated, nor turned, which tf32 cannot be
    scales = ", p, 1, 1" if unit.acc == "float32" else ", p"
    if size_of(unit.lhs) == _TURNED_BYTES:
        scales += ", 0, 0"
    if unit.rounds:  # they are rounded before
        one = other = "emulator::Truncated"
    return f"""\
#ifdef __CUDA_ARCH__
__device__ inline void {name}({kind} *acc, unsigned long long lhs, unsigned long long rhs) {{
  asm volatile("{{.reg .pred p; setp.ne.b32 p, 1, 0; "
               "wgmma.mma_async.sync.aligned.{shape}.{total}.{first}.{second} "
               "{{{results}}}, %{count}, %{count + 1}{scales};}}"
               : {written}
               : "l"(lhs), "l"(rhs));
}}
#else
template <class C, class L, class R> inline void {name}(C acc, L lhs, R rhs) {{
  emulator::multiply_tiles<{one}, {other}, {kind}, {unit.n}, {unit.k}>(acc, lhs, rhs);
}}
#endif
"""
