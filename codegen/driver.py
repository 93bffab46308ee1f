"""The native driver: runs plans of kernels, times them, and prepares the caches."""

from __future__ import annotations

from typing import Final

from codegen.kernel import Kernel
from codegen.llvm.clock import CLOCK
from codegen.llvm.denormals import denormals_text
from codegen.llvm.machine import emit_object, triple_of
from sketch.target.target import Target

# What a loop over steps does with step %i of %steps.
CALL_STEP: Final = """\
  %at = getelementptr %step, ptr %steps, i64 %i
  %function = load ptr, ptr %at, align 8
  %second = getelementptr %step, ptr %at, i64 0, i32 1
  %args = load ptr, ptr %second, align 8
  call void %function(ptr %args, ptr %team)
"""

_PLAN: Final = (
    """
%step = type { ptr, ptr }
%copy = type { ptr, ptr, i64 }
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @run_plan(
    ptr %steps, i64 %n, ptr %team, ptr %copies, i64 %m, i32 %flush
) nounwind {
entry:
  %state = call i64 @denormals_enter(i32 %flush)
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %ran
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
"""
    + CALL_STEP
    + """\
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %ran
ran:
  call void @denormals_leave(i64 %state)
  %any = icmp sgt i64 %m, 0
  br i1 %any, label %copying, label %done
copying:
  %k = phi i64 [0, %ran], [%k.next, %copying]
  %target.at = getelementptr %copy, ptr %copies, i64 %k
  %target = load ptr, ptr %target.at, align 8
  %source.at = getelementptr %copy, ptr %target.at, i64 0, i32 1
  %source = load ptr, ptr %source.at, align 8
  %bytes.at = getelementptr %copy, ptr %target.at, i64 0, i32 2
  %bytes = load i64, ptr %bytes.at, align 8
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %source, i64 %bytes, i1 false)
  %k.next = add i64 %k, 1
  %further = icmp slt i64 %k.next, %m
  br i1 %further, label %copying, label %done
done:
  ret void
}

define void @run_plan_timed(
    ptr %steps, i64 %n, ptr %nanoseconds, ptr %team, i32 %flush
) nounwind {
entry:
  %state = call i64 @denormals_enter(i32 %flush)
  %some = icmp sgt i64 %n, 0
  %begin = call i64 @now()
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %start = phi i64 [%begin, %entry], [%end, %loop]
"""
    + CALL_STEP
    + """\
  %end = call i64 @now()
  %passed = sub i64 %end, %start
  %slot = getelementptr i64, ptr %nanoseconds, i64 %i
  store i64 %passed, ptr %slot, align 8
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  call void @denormals_leave(i64 %state)
  ret void
}

define void @time_kernel(
    ptr %function, ptr %args, i64 %repeats, ptr %nanoseconds, ptr %team, i32 %flush
) nounwind {
entry:
  %state = call i64 @denormals_enter(i32 %flush)
  %some = icmp sgt i64 %repeats, 0
  %start = call i64 @now()
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  call void %function(ptr %args, ptr %team)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %repeats
  br i1 %more, label %loop, label %done
done:
  %end = call i64 @now()
  %passed = sub i64 %end, %start
  store i64 %passed, ptr %nanoseconds, align 8
  call void @denormals_leave(i64 %state)
  ret void
}
"""
)

# A loop over cache lines; the flush instruction is put in where the machine has one.
_LINES: Final = """
define void @flush_lines(ptr %memory, i64 %bytes) nounwind {{
entry:
  %some = icmp sgt i64 %bytes, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %at = getelementptr i8, ptr %memory, i64 %i
  {flush}
  %next = add i64 %i, {line}
  %more = icmp slt i64 %next, %bytes
  br i1 %more, label %loop, label %done
done:
  fence seq_cst
  ret void
}}
"""


def driver_text(target: Target) -> str:
    """The driver's LLVM IR."""
    triple = triple_of(target)
    flush, declaration = "", ""
    if triple.startswith("x86_64"):
        name = "clflushopt" if "+clflushopt" in target.features.split(",") else "sse2.clflush"
        declaration = f"declare void @llvm.x86.{name}(ptr)\n"
        flush = f"call void @llvm.x86.{name}(ptr %at)"
    lines = _LINES.format(flush=flush, line=target.cache_line_bytes)
    functions = f"{CLOCK}{denormals_text(triple)}{_PLAN}{lines}"
    return f'target triple = "{triple}"\n{declaration}{functions}'


def build_driver(target: Target) -> Kernel:
    """Compile the driver for a target.

    Symbols of the object:

        void run_plan(const struct {void *function; void *args;} *steps, int64_t n, void *team,
                      const struct {void *target; void *source; int64_t bytes;} *copies, int64_t m,
                      int flush)
        void run_plan_timed(steps, int64_t n, int64_t *nanoseconds, void *team, int flush)
                                                          one time per step
        void time_kernel(void *function, void *args, int64_t repeats, int64_t *nanoseconds,
                         void *team, int flush)
        void flush_lines(void *memory, int64_t bytes)     out of all caches (x86 only)

    ``run_plan`` makes the copies after the last step.  ``time_kernel`` stores the total of all
    repeats.  Times are CLOCK_MONOTONIC, in nanoseconds.  With ``flush`` denormal numbers become 0
    in all threads that compute; the calling thread's state is put back at the end.
    """
    return Kernel(
        name="driver",
        symbol="run_plan",
        object_code=emit_object(driver_text(target), target),
        arguments=(),
        workspace_bytes=0,
        target=target.with_threads(1),
        instructions=0,
    )
