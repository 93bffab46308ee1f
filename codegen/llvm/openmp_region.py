"""Parallel regions on threads of the OpenMP runtime: what exported libraries use."""

from __future__ import annotations

from typing import Final

from codegen.llvm.denormals import denormals_text
from codegen.llvm.region import REGION_SYMBOL, SHARE
from codegen.llvm.team_layout import FLUSH, LINE_BYTES, RECORDS

_OPENMP: Final = f"""
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()

define internal void @finished(ptr %left) nounwind {{
  ret void
}}

define internal void @adopt(ptr %team, i64 %id) nounwind {{
  ret void
}}

define internal void @member(ptr %pair) nounwind {{
  %team = load ptr, ptr %pair, align 8
  %threads.at = getelementptr i8, ptr %pair, i64 8
  %threads = load i64, ptr %threads.at, align 8
  %number = call i32 @omp_get_thread_num()
  %id = zext i32 %number to i64
  %flush.at = getelementptr i8, ptr %team, i64 {FLUSH}
  %flush = load i32, ptr %flush.at, align 4
  %state = call i64 @denormals_enter(i32 %flush)
  call void @share(ptr %team, i64 %id, i64 %threads)
  call void @denormals_leave(i64 %state)
  ret void
}}

define hidden void @{REGION_SYMBOL}(
    ptr %unused, ptr %function, ptr %args, i64 %chunks, i64 %most
) nounwind {{
  %fewer = icmp ult i64 %chunks, %most
  %threads = select i1 %fewer, i64 %chunks, i64 %most
  %records = mul i64 %threads, {LINE_BYTES}
  %bytes = add i64 %records, {RECORDS}
  %team = alloca i8, i64 %bytes, align {LINE_BYTES}
  %pair = alloca [2 x i64], align 16
  store ptr %team, ptr %pair, align 8
  %threads.at = getelementptr i8, ptr %pair, i64 8
  store i64 %threads, ptr %threads.at, align 8
  call void @hand_out(ptr %team, ptr %function, ptr %args, i64 %chunks, i64 %threads)
  %count = trunc i64 %threads to i32
  call void @GOMP_parallel(ptr @member, ptr %pair, i32 %count, i32 0)
  ret void
}}
"""


def openmp_text(triple: str) -> str:
    """The region on threads of the OpenMP runtime; it needs ``GOMP_parallel`` and
    ``omp_get_thread_num``.  The team that the caller names is not looked at.  Its threads belong to
    the whole process: each gets its own state back that says what becomes of denormal numbers.
    """
    return f'target triple = "{triple}"\n{denormals_text(triple)}{SHARE}{_OPENMP}'
