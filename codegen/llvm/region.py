"""What every definition of a parallel region shares: how threads take the chunks of a region.

A kernel cuts the work of a region into chunks and calls ``REGION_SYMBOL``.  Every thread of the
team has a range of chunks of its own, so that in a quiet machine thread k always computes the same
part and finds in its caches what it wrote before.  It takes chunks from the front of its range;
when it has none left it takes them from the back of others' ranges.  So a thread that the system
holds back holds back one chunk at most, and a team whose threads never come still finishes: the
caller computes everything itself.

Two modules define the region: ``team_region`` makes threads of its own, which spin for a moment and
then sleep; the code in this process uses it.  ``openmp_region`` asks the OpenMP runtime for them;
exported libraries do.
"""

from __future__ import annotations

from typing import Final

from codegen.llvm.team_layout import ARGUMENTS, FLUSH, FUNCTION, LEFT, LINE_BYTES, RECORDS

REGION_SYMBOL: Final = "autosched_region"
CHUNKS_A_THREAD: Final = 4  # a thread that is held back holds back a quarter of its share at most

# @share(team, id, threads): compute chunks until none is left; @adopt makes a thread treat denormal
# numbers as the caller does, @finished tells that the last chunk is done.
# @hand_out: what the team is to do, and the range of each thread.
SHARE: Final = f"""
define internal i64 @claim(ptr %ticket, i1 %own) nounwind {{
entry:
  %found = load atomic i64, ptr %ticket acquire, align 8
  br label %look
look:
  %range = phi i64 [%found, %entry], [%seen, %take]
  %first = lshr i64 %range, 32
  %end = and i64 %range, 4294967295
  %some = icmp ult i64 %first, %end
  br i1 %some, label %take, label %none
take:
  %front = add i64 %range, 4294967296
  %back = sub i64 %range, 1
  %rest = select i1 %own, i64 %front, i64 %back
  %pair = cmpxchg ptr %ticket, i64 %range, i64 %rest acq_rel acquire
  %seen = extractvalue {{ i64, i1 }} %pair, 0
  %done = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %done, label %got, label %look
got:
  %last = sub i64 %end, 1
  %chunk = select i1 %own, i64 %first, i64 %last
  ret i64 %chunk
none:
  ret i64 -1
}}

define internal void @share(ptr %team, i64 %id, i64 %threads) nounwind {{
entry:
  %left = getelementptr i8, ptr %team, i64 {LEFT}
  %function.at = getelementptr i8, ptr %team, i64 {FUNCTION}
  %args.at = getelementptr i8, ptr %team, i64 {ARGUMENTS}
  br label %range
range:
  %turn = phi i64 [0, %entry], [%turn.next, %next]
  %sum = add i64 %id, %turn
  %over = icmp uge i64 %sum, %threads
  %less = sub i64 %sum, %threads
  %owner = select i1 %over, i64 %less, i64 %sum
  %offset = mul i64 %owner, {LINE_BYTES}
  %at = add i64 %offset, {RECORDS}
  %ticket = getelementptr i8, ptr %team, i64 %at
  %own = icmp eq i64 %turn, 0
  br label %chunks
chunks:
  %chunk = call i64 @claim(ptr %ticket, i1 %own)
  %none = icmp slt i64 %chunk, 0
  br i1 %none, label %next, label %work
work:
  call void @adopt(ptr %team, i64 %id)
  %function = load ptr, ptr %function.at, align 8
  %args = load ptr, ptr %args.at, align 8
  call void %function(ptr %args, i64 %chunk, i64 %id)
  %before = atomicrmw sub ptr %left, i32 1 seq_cst
  %last = icmp eq i32 %before, 1
  br i1 %last, label %finish, label %chunks
finish:
  call void @finished(ptr %left)
  br label %chunks
next:
  %turn.next = add i64 %turn, 1
  %more = icmp ult i64 %turn.next, %threads
  br i1 %more, label %range, label %done
done:
  ret void
}}

define internal void @hand_out(
    ptr %team, ptr %function, ptr %args, i64 %chunks, i64 %threads
) nounwind {{
entry:
  %function.at = getelementptr i8, ptr %team, i64 {FUNCTION}
  %args.at = getelementptr i8, ptr %team, i64 {ARGUMENTS}
  %left = getelementptr i8, ptr %team, i64 {LEFT}
  store ptr %function, ptr %function.at, align 8
  store ptr %args, ptr %args.at, align 8
  %flush.at = getelementptr i8, ptr %team, i64 {FLUSH}
  %flush = call i32 @denormals_flushed()
  store i32 %flush, ptr %flush.at, align 4
  %count = trunc i64 %chunks to i32
  store atomic i32 %count, ptr %left monotonic, align 4
  br label %loop
loop:
  %end = phi i64 [%chunks, %entry], [%first, %loop]
  %following = phi i64 [%threads, %entry], [%k, %loop]
  %k = sub i64 %following, 1
  %scaled = mul i64 %chunks, %k
  %first = udiv i64 %scaled, %threads
  %upper = shl i64 %first, 32
  %range = or i64 %upper, %end
  %offset = mul i64 %k, {LINE_BYTES}
  %at = add i64 %offset, {RECORDS}
  %ticket = getelementptr i8, ptr %team, i64 %at
  store atomic i64 %range, ptr %ticket release, align 8
  %more = icmp ne i64 %k, 0
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
