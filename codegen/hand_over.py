"""What neighbours in a network leave in the caches of the threads, before a kernel is timed.

Kernels that compute row after row give thread k the k-th share of the rows of whatever they write
or read.  So the next kernel finds that share in the caches of thread k, and what it needs of other
rows comes from other cores.  The spans are touched in their order: what does not fit the caches any
more is what came first.
"""

from __future__ import annotations

from typing import Final

from codegen.kernel import Kernel
from codegen.llvm.machine import emit_object, triple_of
from codegen.llvm.region import REGION_SYMBOL
from sketch.target.target import Target

HAND_OVER_SYMBOL: Final = "hand_over"

_TEXT: Final = """
%span = type {{ ptr, i64 }}
declare void @{region}(ptr, ptr, ptr, i64, i64)

define internal void @touch(ptr %spans, i64 %share, i64 %thread) nounwind {{
entry:
  %following = add i64 %share, 1
  br label %spans.loop
spans.loop:
  %k = phi i64 [0, %entry], [%k.next, %touched]
  %at = getelementptr %span, ptr %spans, i64 %k
  %memory = load ptr, ptr %at, align 8
  %none = icmp eq ptr %memory, null
  br i1 %none, label %done, label %lines
lines:
  %bytes.at = getelementptr %span, ptr %at, i64 0, i32 1
  %bytes = load i64, ptr %bytes.at, align 8
  %scaled = mul i64 %bytes, %share
  %start = udiv i64 %scaled, {threads}
  %further = mul i64 %bytes, %following
  %end = udiv i64 %further, {threads}
  br label %look
look:
  %i = phi i64 [%start, %lines], [%next, %line]
  %more = icmp ult i64 %i, %end
  br i1 %more, label %line, label %touched
line:
  %byte.at = getelementptr i8, ptr %memory, i64 %i
  %byte = load volatile i8, ptr %byte.at, align 1
  store volatile i8 %byte, ptr %byte.at, align 1
  %next = add i64 %i, {line}
  br label %look
touched:
  %k.next = add i64 %k, 1
  br label %spans.loop
done:
  ret void
}}

define void @{symbol}(ptr %spans, ptr %team) nounwind {{
  call void @{region}(ptr %team, ptr @touch, ptr %spans, i64 {threads}, i64 {threads})
  ret void
}}
"""


def build_hand_over(target: Target) -> Kernel:
    """Compile ``void hand_over(const struct {void *memory; int64_t bytes;} *spans, void *team)``.

    Every thread reads and writes back one byte of each cache line of its share of every span; the
    list ends with a null.  Nothing changes but the caches.
    """
    text = _TEXT.format(
        region=REGION_SYMBOL,
        symbol=HAND_OVER_SYMBOL,
        threads=target.threads,
        line=target.cache_line_bytes,
    )
    text = f'target triple = "{triple_of(target)}"\n{text}'
    return Kernel(
        name=HAND_OVER_SYMBOL,
        symbol=HAND_OVER_SYMBOL,
        object_code=emit_object(text, target),
        arguments=(),
        workspace_bytes=0,
        target=target,
        instructions=0,
    )
