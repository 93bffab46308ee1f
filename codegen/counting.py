"""The native driver that reads counters between the kernels of a plan."""

from __future__ import annotations

from typing import Final

from codegen.driver import CALL_STEP
from codegen.kernel import Kernel
from codegen.llvm.denormals import denormals_text
from codegen.llvm.machine import emit_object, triple_of
from sketch.target.target import Target

_TEXT: Final = (
    """
%step = type { ptr, ptr }
declare i64 @read(i32, ptr, i64)

define internal void @read_all(ptr %files, i64 %n, ptr %out) nounwind {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %file.at = getelementptr i32, ptr %files, i64 %i
  %file = load i32, ptr %file.at, align 4
  %out.at = getelementptr [24 x i8], ptr %out, i64 %i
  %bytes = call i64 @read(i32 %file, ptr %out.at, i64 24)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}

define void @run_plan_counted(
    ptr %steps, i64 %n, ptr %files, i64 %width, ptr %out, ptr %team, i32 %flush
) nounwind {
entry:
  %state = call i64 @denormals_enter(i32 %flush)
  call void @read_all(ptr %files, i64 %width, ptr %out)
  %row = mul i64 %width, 24
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
"""
    + CALL_STEP
    + """\
  %next = add i64 %i, 1
  %offset = mul i64 %next, %row
  %place = getelementptr i8, ptr %out, i64 %offset
  call void @read_all(ptr %files, i64 %width, ptr %place)
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  call void @denormals_leave(i64 %state)
  ret void
}
"""
)


def build_counting_driver(target: Target) -> Kernel:
    """Compile the driver, an object with one function.

        void run_plan_counted(steps, int64_t n, const int32_t *files, int64_t width, int64_t *out,
                              void *team, int flush)

    It reads all ``width`` open counters before the first step and after each: ``out`` is int64
    ``[n + 1, width, 3]`` of count, nanoseconds enabled, nanoseconds running.  ``flush`` is that of
    ``run_plan``.
    """
    triple = triple_of(target)
    text = f'target triple = "{triple}"\n{denormals_text(triple)}{_TEXT}'
    return Kernel(
        name="counting_driver",
        symbol="run_plan_counted",
        object_code=emit_object(text, target),
        arguments=(),
        workspace_bytes=0,
        target=target.with_threads(1),
        instructions=0,
    )
