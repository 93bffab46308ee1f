"""Parallel regions in LLVM IR: how the threads of a team share the chunks of a region.

A kernel cuts the work of a region into chunks and calls ``REGION_SYMBOL``.  Every thread of the
team has a range of chunks of its own, so that in a quiet machine thread k always computes the same
part and finds in its caches what it wrote before.  It takes chunks from the front of its range;
when it has none left it takes them from the back of others' ranges.  So a thread that the system
holds back holds back one chunk at most, and a team whose threads never come still finishes: the
caller computes everything itself.

Two definitions of the region stand here.  ``team_text`` makes threads of its own, which spin for a
moment and then sleep; the code in this process uses it.  ``openmp_text`` asks the OpenMP runtime
for them; exported libraries do.
"""

from __future__ import annotations

from typing import Final

REGION_SYMBOL: Final = "autosched_region"
CHUNKS_A_THREAD: Final = 4  # a thread that is held back holds back a quarter of its share at most

# A team in memory.  Two cache lines for everything that another thread writes: lines are fetched in
# pairs.  0: epoch, sleeping workers, how often one went to sleep, threads, users, started, stop;
# 128: function and arguments; 256: chunks that are not finished, whether the caller sleeps, how
# often it went to sleep; then a record for each thread: its range of chunks (next in the upper
# half, end in the lower), the team, its number, the system's id.
LINE_BYTES: Final = 128
RECORDS: Final = 3 * LINE_BYTES
STARTED_OFFSET: Final = 20
THREAD_ID_OFFSET: Final = 24
SLEEPS_OFFSET: Final = 2 * LINE_BYTES + 8
_FUNCTION: Final = LINE_BYTES
_LEFT: Final = 2 * LINE_BYTES

# How long a thread that waits looks again and again before it sleeps: longer than what lies between
# two regions of a network and between two runs in a loop, shorter than the system's slices of time.
_SPIN_NANOSECONDS: Final = 100_000
_LOOKS_A_CLOCK: Final = 64

_SHARE: Final = f"""
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
  %left = getelementptr i8, ptr %team, i64 {_LEFT}
  %function.at = getelementptr i8, ptr %team, i64 {_FUNCTION}
  %args.at = getelementptr i8, ptr %team, i64 {_FUNCTION + 8}
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
  %function.at = getelementptr i8, ptr %team, i64 {_FUNCTION}
  %args.at = getelementptr i8, ptr %team, i64 {_FUNCTION + 8}
  %left = getelementptr i8, ptr %team, i64 {_LEFT}
  store ptr %function, ptr %function.at, align 8
  store ptr %args, ptr %args.at, align 8
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

_OPENMP: Final = f"""
declare void @GOMP_parallel(ptr, ptr, i32, i32)
declare i32 @omp_get_thread_num()

define internal void @finished(ptr %left) nounwind {{
  ret void
}}

define internal void @member(ptr %pair) nounwind {{
  %team = load ptr, ptr %pair, align 8
  %threads.at = getelementptr i8, ptr %pair, i64 8
  %threads = load i64, ptr %threads.at, align 8
  %number = call i32 @omp_get_thread_num()
  %id = zext i32 %number to i64
  call void @share(ptr %team, i64 %id, i64 %threads)
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

_WAITING: Final = """
%timespec = type {{ i64, i64 }}
declare i32 @clock_gettime(i32, ptr)
declare i64 @syscall(i64, ...)
{pause_declaration}

define internal i64 @now() nounwind {{
  %time = alloca %timespec, align 8
  %status = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time, align 8
  %field = getelementptr %timespec, ptr %time, i64 0, i32 1
  %rest = load i64, ptr %field, align 8
  %scaled = mul i64 %seconds, 1000000000
  %total = add i64 %scaled, %rest
  ret i64 %total
}}

define internal void @wake(ptr %word, i32 %count) nounwind {{
  %status = call i64 (i64, ...) @syscall(i64 {futex}, ptr %word, i32 129, i32 %count)
  ret void
}}

define internal void @finished(ptr %left) nounwind {{
entry:
  %sleeps.at = getelementptr i8, ptr %left, i64 4
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
  %times.at = getelementptr i8, ptr %word, i64 8
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
  %threads.at = getelementptr i8, ptr %team, i64 12
  %count = load i32, ptr %threads.at, align 4
  %threads = zext i32 %count to i64
  call void @hand_out(ptr %team, ptr %function, ptr %args, i64 %chunks, i64 %threads)
  %epoch = atomicrmw add ptr %team, i32 1 seq_cst
  %sleepers.at = getelementptr i8, ptr %team, i64 4
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %some = icmp ne i32 %sleepers, 0
  br i1 %some, label %call, label %work
call:
  call void @wake(ptr %team, i32 2147483647)
  br label %work
work:
  call void @share(ptr %team, i64 0, i64 %threads)
  %left = getelementptr i8, ptr %team, i64 {left}
  %sleeps = getelementptr i8, ptr %left, i64 4
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

define internal void @let_go(ptr %team) nounwind {{
entry:
  %users.at = getelementptr i8, ptr %team, i64 16
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
  %team.at = getelementptr i8, ptr %record, i64 8
  %team = load ptr, ptr %team.at, align 8
  %id.at = getelementptr i8, ptr %record, i64 16
  %id = load i64, ptr %id.at, align 8
  %sleepers = getelementptr i8, ptr %team, i64 4
  %stop.at = getelementptr i8, ptr %team, i64 24
  %threads.at = getelementptr i8, ptr %team, i64 12
  %count = load i32, ptr %threads.at, align 4
  %threads = zext i32 %count to i64
  %system = call i64 (i64, ...) @syscall(i64 {gettid})
  %thread = trunc i64 %system to i32
  %thread.at = getelementptr i8, ptr %record, i64 {thread_id}
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
  %threads.at = getelementptr i8, ptr %team, i64 12
  %count = trunc i64 %threads to i32
  store i32 %count, ptr %threads.at, align 4
  %users.at = getelementptr i8, ptr %team, i64 16
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
  %team.at = getelementptr i8, ptr %record, i64 8
  store ptr %team, ptr %team.at, align 8
  %id.at = getelementptr i8, ptr %record, i64 16
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
  %stop.at = getelementptr i8, ptr %team, i64 24
  store atomic i32 1, ptr %stop.at release, align 4
  %epoch = atomicrmw add ptr %team, i32 1 seq_cst
  call void @wake(ptr %team, i32 2147483647)
  call void @let_go(ptr %team)
  br label %done
done:
  ret void
}}
"""


def openmp_text(triple: str) -> str:
    """The region on threads of the OpenMP runtime; it needs ``GOMP_parallel`` and
    ``omp_get_thread_num``.  The team that the caller names is not looked at.
    """
    return f'target triple = "{triple}"\n{_SHARE}{_OPENMP}'


def team_text(triple: str) -> str:
    """The region on teams of our own, for Linux.

    Symbols:

        void autosched_region(void *team, void (*f)(void *args, int64_t chunk, int64_t thread),
                              void *args, int64_t chunks, int64_t threads)
        int team_start(void **home, int64_t threads)    0, or the error number; stores the team
        void team_stop(void **home)                     stores null; a second call does nothing

    Without a team the caller computes all chunks.  Workers take no signals.  The memory of a team
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
    waiting = _WAITING.format(
        futex=futex,
        pause_declaration=declaration,
        pause=pause,
        looks=_LOOKS_A_CLOCK,
        spin=_SPIN_NANOSECONDS,
    )
    team = _TEAM.format(
        region=REGION_SYMBOL,
        left=_LEFT,
        line=LINE_BYTES,
        records=RECORDS,
        started=STARTED_OFFSET,
        thread_id=THREAD_ID_OFFSET,
        gettid=gettid,
    )
    return f'target triple = "{triple}"\n{waiting}{_SHARE}{team}'
