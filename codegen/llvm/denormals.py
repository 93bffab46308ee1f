"""The state of a thread that says what becomes of denormal numbers: MXCSR on x86, FPCR on ARM."""

from __future__ import annotations

from typing import Final

# Flush to zero (results) and denormals are zeros (operands); ARM has one bit for both.
_MXCSR_BITS: Final = 1 << 15 | 1 << 6
_FPCR_BITS: Final = 1 << 24

_X86: Final = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define internal i64 @float_state() nounwind {
  %slot = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %slot)
  %word = load i32, ptr %slot, align 4
  %state = zext i32 %word to i64
  ret i64 %state
}

define internal void @denormals_leave(i64 %state) nounwind {
  %slot = alloca i32, align 4
  %word = trunc i64 %state to i32
  store i32 %word, ptr %slot, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %slot)
  ret void
}
"""

_ARM: Final = """
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

define internal i64 @float_state() nounwind {
  %state = call i64 @llvm.aarch64.get.fpcr()
  ret i64 %state
}

define internal void @denormals_leave(i64 %state) nounwind {
  call void @llvm.aarch64.set.fpcr(i64 %state)
  ret void
}
"""

_SHARED: Final = """
define internal i64 @denormals_enter(i32 %flush) nounwind {{
  %state = call i64 @float_state()
  %kept = and i64 %state, {others}
  %flushed = or i64 %state, {bits}
  %one = icmp ne i32 %flush, 0
  %wanted = select i1 %one, i64 %flushed, i64 %kept
  call void @denormals_leave(i64 %wanted)
  ret i64 %state
}}

define internal i32 @denormals_flushed() nounwind {{
  %state = call i64 @float_state()
  %found = and i64 %state, {bits}
  %all = icmp eq i64 %found, {bits}
  %flushed = zext i1 %all to i32
  ret i32 %flushed
}}
"""


def denormals_text(triple: str) -> str:
    """Functions that set the state of the calling thread.

    i64 @denormals_enter(i32 %flush)    1: they become 0; 0: they are kept; returns the state
    void @denormals_leave(i64 %state)   puts a state back
    i32 @denormals_flushed()            whether they become 0 now
    """
    machine, bits = (_X86, _MXCSR_BITS) if triple.startswith("x86_64") else (_ARM, _FPCR_BITS)
    return machine + _SHARED.format(bits=bits, others=~bits)
