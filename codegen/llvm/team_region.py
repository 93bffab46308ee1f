"""Parallel regions on teams of threads of our own, for Linux: what the code in this process uses.

Threads that wait look at a word again and again for a moment, and then sleep until it changes.
"""

from __future__ import annotations

from typing import Final

from codegen.llvm import team_layout as layout
from codegen.llvm.clock import CLOCK
from codegen.llvm.denormals import denormals_text
from codegen.llvm.region import REGION_SYMBOL, SHARE

# How long a thread that waits looks again and again before it sleeps: longer than what lies between
# two regions of a network and between two runs in a loop (a large network leaves nothing of Python
# in the caches: 0.2 ms), shorter than the system's slices of time.
_SPIN_NANOSECONDS: Final = 300_000
_LOOKS_A_CLOCK: Final = 64

_WAITING: Final = """
declare i64 @syscall(i64, ...)
{pause_declaration}

define internal void @wake(ptr %word, i32 %count) nounwind {{
  %status = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i32 129, i32 %count)
  ret void
}}

define internal void @finished(ptr %left) nounwind {{
entry:
  %sleeps.at = getelementptr i8, ptr %left, i64 {sleepers}
  %sleeps = load atomic i32, ptr %sleeps.at seq_cst, align 4
  %some = icmp ne i32 %sleeps, 0
  br i1 %some, label %call, label %done
call:
  call void @wake(ptr %left, i32 1)
  br label %done
done:
  ret void
}}

define internal void @await_change(ptr %word, i32 %value, ptr %sleepers) nounwind noinline {{
entry:
  br label %round
round:
  %start = phi i64 [0, %entry], [%kept, %again]
  br label %look
look:
  %n = phi i64 [0, %round], [%n.next, %calm]
  %found = load atomic i32, ptr %word acquire, align 4
  %changed = icmp ne i32 %found, %value
  br i1 %changed, label %done, label %calm
calm:
  {pause}
  %n.next = add i64 %n, 1
  %more = icmp ult i64 %n.next, {looks}
  br i1 %more, label %look, label %clock
clock:
  %time = call i64 @now()
  %first = icmp eq i64 %start, 0
  %kept = select i1 %first, i64 %time, i64 %start
  %passed = sub i64 %time, %kept
  %short = icmp ult i64 %passed, {spin}
  br i1 %short, label %again, label %sleep
again:
  br label %round
sleep:
  %count = atomicrmw add ptr %sleepers, i32 1 seq_cst
  %times.at = getelementptr i8, ptr %word, i64 {times_slept}
  %times = atomicrmw add ptr %times.at, i32 1 monotonic
  %status = call i64 (i64, ...) @syscall(
    i64 {futex}, ptr %word, i32 128, i32 %value, ptr null, ptr null, i32 0)
  %less = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  %later = load atomic i32, ptr %word acquire, align 4
  %same = icmp eq i32 %later, %value
  br i1 %same, label %sleep, label %done
done:
  ret void
}}
"""

_TEAM: Final = """
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @sigfillset(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)

define void @{region}(
    ptr %team, ptr %function, ptr %args, i64 %chunks, i64 %most
) nounwind {{
entry:
  %alone = icmp eq ptr %team, null
  br i1 %alone, label %serial, label %shared
serial:
  %chunk = phi i64 [0, %entry], [%next, %serial]
  call void %function(ptr %args, i64 %chunk, i64 0)
  %next = add i64 %chunk, 1
  %more = icmp ult i64 %next, %chunks
  br i1 %more, label %serial, label %done
shared:
  %threads.at = getelementptr i8, ptr %team, i64 {threads}
  %count = load i32, ptr %threads.at, align 4
  %threads = zext i32 %count to i64
  call void @hand_out(ptr %team, ptr %function, ptr %args, i64 %chunks, i64 %threads)
  %epoch = atomicrmw add ptr %team, i32 1 seq_cst
  %sleepers.at = getelementptr i8, ptr %team, i64 {sleepers}
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %some = icmp ne i32 %sleepers, 0
  br i1 %some, label %call, label %work
call:
  call void @wake(ptr %team, i32 2147483647)
  br label %work
work:
  call void @share(ptr %team, i64 0, i64 %threads)
  %left = getelementptr i8, ptr %team, i64 {left}
  %sleeps = getelementptr i8, ptr %left, i64 {sleepers}
  br label %wait
wait:
  %missing = load atomic i32, ptr %left seq_cst, align 4
  %all = icmp eq i32 %missing, 0
  br i1 %all, label %done, label %hold
hold:
  call void @await_change(ptr %left, i32 %missing, ptr %sleeps)
  br label %wait
done:
  ret void
}}

define internal void @adopt(ptr %team, i64 %id) nounwind {{
entry:
  %caller = icmp eq i64 %id, 0
  br i1 %caller, label %done, label %worker
worker:
  %offset = mul i64 %id, {line}
  %at = add i64 %offset, {records}
  %record = getelementptr i8, ptr %team, i64 %at
  %state.at = getelementptr i8, ptr %record, i64 {state}
  %state = load i32, ptr %state.at, align 4
  %flush.at = getelementptr i8, ptr %team, i64 {flush}
  %flush = load i32, ptr %flush.at, align 4
  %wanted = add i32 %flush, 1
  %same = icmp eq i32 %state, %wanted
  br i1 %same, label %done, label %change
change:
  %before = call i64 @denormals_enter(i32 %flush)
  store i32 %wanted, ptr %state.at, align 4
  br label %done
done:
  ret void
}}

define internal void @let_go(ptr %team) nounwind {{
entry:
  %users.at = getelementptr i8, ptr %team, i64 {users}
  %users = atomicrmw sub ptr %users.at, i32 1 acq_rel
  %last = icmp eq i32 %users, 1
  br i1 %last, label %give, label %done
give:
  call void @free(ptr %team)
  br label %done
done:
  ret void
}}

define internal ptr @team_worker(ptr %record) nounwind {{
entry:
  %team.at = getelementptr i8, ptr %record, i64 {team}
  %team = load ptr, ptr %team.at, align 8
  %id.at = getelementptr i8, ptr %record, i64 {number}
  %id = load i64, ptr %id.at, align 8
  %sleepers = getelementptr i8, ptr %team, i64 {sleepers}
  %stop.at = getelementptr i8, ptr %team, i64 {stop}
  %threads.at = getelementptr i8, ptr %team, i64 {threads}
  %count = load i32, ptr %threads.at, align 4
  %threads = zext i32 %count to i64
  %system = call i64 (i64, ...) @syscall(i64 {gettid})
  %thread = trunc i64 %system to i32
  %thread.at = getelementptr i8, ptr %record, i64 {system_id}
  store atomic i32 %thread, ptr %thread.at release, align 4
  br label %loop
loop:
  %seen = phi i32 [0, %entry], [%epoch, %work]
  call void @await_change(ptr %team, i32 %seen, ptr %sleepers)
  %epoch = load atomic i32, ptr %team acquire, align 4
  %stop = load atomic i32, ptr %stop.at acquire, align 4
  %ends = icmp ne i32 %stop, 0
  br i1 %ends, label %leave, label %work
work:
  call void @share(ptr %team, i64 %id, i64 %threads)
  br label %loop
leave:
  call void @let_go(ptr %team)
  ret ptr null
}}

define i32 @team_start(ptr %home, i64 %threads) nounwind {{
entry:
  %slot = alloca ptr, align 8
  %handle = alloca i64, align 8
  %signals = alloca [128 x i8], align 8
  %before = alloca [128 x i8], align 8
  %records = mul i64 %threads, {line}
  %bytes = add i64 %records, {records}
  %status = call i32 @posix_memalign(ptr %slot, i64 {line}, i64 %bytes)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %full, label %fill
fill:
  %team = load ptr, ptr %slot, align 8
  call void @llvm.memset.p0.i64(ptr align {line} %team, i8 0, i64 %bytes, i1 false)
  %threads.at = getelementptr i8, ptr %team, i64 {threads}
  %count = trunc i64 %threads to i32
  store i32 %count, ptr %threads.at, align 4
  %users.at = getelementptr i8, ptr %team, i64 {users}
  store i32 1, ptr %users.at, align 4
  %started.at = getelementptr i8, ptr %team, i64 {started}
  %filled = call i32 @sigfillset(ptr %signals)
  %masked = call i32 @pthread_sigmask(i32 2, ptr %signals, ptr %before)
  br label %loop
loop:
  %k = phi i64 [1, %fill], [%following, %next]
  %some = icmp ult i64 %k, %threads
  br i1 %some, label %create, label %ready
create:
  %offset = mul i64 %k, {line}
  %at = add i64 %offset, {records}
  %record = getelementptr i8, ptr %team, i64 %at
  %team.at = getelementptr i8, ptr %record, i64 {team}
  store ptr %team, ptr %team.at, align 8
  %id.at = getelementptr i8, ptr %record, i64 {number}
  store i64 %k, ptr %id.at, align 8
  %more.users = atomicrmw add ptr %users.at, i32 1 monotonic
  %refused = call i32 @pthread_create(ptr %handle, ptr null, ptr @team_worker, ptr %record)
  %none = icmp ne i32 %refused, 0
  br i1 %none, label %undo, label %created
undo:
  %fewer.users = atomicrmw sub ptr %users.at, i32 1 monotonic
  br label %ready
created:
  %thread = load i64, ptr %handle, align 8
  %detached = call i32 @pthread_detach(i64 %thread)
  %running = trunc i64 %k to i32
  store i32 %running, ptr %started.at, align 4
  br label %next
next:
  %following = add i64 %k, 1
  br label %loop
ready:
  %restored = call i32 @pthread_sigmask(i32 2, ptr %before, ptr null)
  store ptr %team, ptr %home, align 8
  ret i32 0
full:
  ret i32 %status
}}

define void @team_stop(ptr %home) nounwind {{
entry:
  %team = atomicrmw xchg ptr %home, ptr null acq_rel
  %gone = icmp eq ptr %team, null
  br i1 %gone, label %done, label %stop
stop:
  %stop.at = getelementptr i8, ptr %team, i64 {stop}
  store atomic i32 1, ptr %stop.at release, align 4
  %epoch = atomicrmw add ptr %team, i32 1 seq_cst
  call void @wake(ptr %team, i32 2147483647)
  call void @let_go(ptr %team)
  br label %done
done:
  ret void
}}
"""


def team_text(triple: str) -> str:
    """The region on teams of our own, for Linux.

    Symbols:

        void autosched_region(void *team, void (*f)(void *args, int64_t chunk, int64_t thread),
                              void *args, int64_t chunks, int64_t threads)
        int team_start(void **home, int64_t threads)    0, or the error number; stores the team
        void team_stop(void **home)                     stores null; a second call does nothing

    Without a team the caller computes all chunks.  Workers take no signals, and treat denormal
    numbers as the caller does.  The memory of a team
    lives until the last of its workers has left.
    """
    if triple.startswith("x86_64"):
        futex, gettid = 202, 186
        declaration = "declare void @llvm.x86.sse2.pause()"
        pause = "call void @llvm.x86.sse2.pause()"
    else:
        futex, gettid = 98, 178
        declaration = "declare void @llvm.aarch64.hint(i32)"
        pause = "call void @llvm.aarch64.hint(i32 1)"
    state = denormals_text(triple)
    waiting = _WAITING.format(
        futex=futex,
        pause_declaration=declaration,
        pause=pause,
        sleepers=layout.SLEEPERS,
        times_slept=layout.TIMES_SLEPT,
        looks=_LOOKS_A_CLOCK,
        spin=_SPIN_NANOSECONDS,
    )
    team = _TEAM.format(
        region=REGION_SYMBOL,
        line=layout.LINE_BYTES,
        sleepers=layout.SLEEPERS,
        threads=layout.THREADS,
        users=layout.USERS,
        started=layout.STARTED,
        stop=layout.STOP,
        left=layout.LEFT,
        records=layout.RECORDS,
        team=layout.TEAM,
        number=layout.NUMBER,
        system_id=layout.SYSTEM_ID,
        state=layout.STATE,
        flush=layout.FLUSH,
        gettid=gettid,
    )
    return f'target triple = "{triple}"\n{CLOCK}{state}{waiting}{SHARE}{team}'
