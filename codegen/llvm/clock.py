"""The clock of native code: ``i64 @now()``, CLOCK_MONOTONIC in nanoseconds."""

from __future__ import annotations

from typing import Final

CLOCK: Final = """
%timespec = type { i64, i64 }
declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() nounwind {
  %time = alloca %timespec, align 8
  %status = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %field = getelementptr %timespec, ptr %time, i64 0, i32 1
  %rest = load i64, ptr %field, align 8
  %scaled = mul i64 %seconds, 1000000000
  %total = add i64 %scaled, %rest
  ret i64 %total
}
"""
