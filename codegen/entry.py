"""The entry of a library without Python: initialise, run all kernels, free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from codegen.denormals import Denormals, flush_flag
from codegen.kernel import BUFFER_ALIGNMENT
from codegen.llvm.denormals import denormals_text
from codegen.llvm.machine import emit_object, triple_of
from sketch.target.target import Target

Base = Literal["arena", "constants", "input", "output"]

ABI_VERSION: Final = 1
"""Of the C functions: it changes when a program that was compiled for them must not call them."""

# What the functions return; the C header spells them out.
OK: Final = 0
NOT_INITIALIZED: Final = 1
OUT_OF_MEMORY: Final = 2
BUSY: Final = 3
NULL_POINTER: Final = 4

_FUNCTIONS: Final = (
    "init", "run", "free", "create", "run_in", "destroy", "abi", "signature",
)  # fmt: skip
CONSTANTS_SYMBOL: Final = "constants"  # where the entry expects the packed constants

_HUGE_PAGE_BYTES: Final = 2 * 1024 * 1024
_ADVISE_HUGE_PAGES: Final = 14


@dataclass(frozen=True, slots=True)
class Operand:
    """``offset`` bytes into the arena or the constants; or the array of input or output number
    ``offset``.
    """

    base: Base
    offset: int


@dataclass(frozen=True, slots=True)
class MovingOperand:
    """An operand of a loop: ``start + stride * (i % period)`` bytes after ``operand``.

    Outside of loops ``stride`` is 0, and there is no ``first``.
    ``i`` counts iterations; a period of 0 is none.  With ``first``, which iteration 0 takes
    instead, ``i`` counts from the iteration after it.
    """

    operand: Operand
    start: int
    stride: int
    period: int = 0
    first: Operand | None = None


@dataclass(frozen=True, slots=True)
class Repetition:
    """``count`` calls from number ``first`` on, executed ``trips`` times."""

    first: int
    count: int
    trips: int


@dataclass(frozen=True, slots=True)
class Entry:
    """What the entry does.

    Attributes:
        prefix: of the C functions' names.
        calls: kernels by symbol, with their arguments.
        inputs: number of inputs.
        outputs: where each output lies after the last call, and its bytes; those that the calls
            write where they belong are not copied.
        arena_bytes: memory that ``PREFIX_init`` takes, and ``PREFIX_create`` for each context.
        loops: calls that are repeated, in order.
        denormals: whether denormal numbers become 0 while it runs.
        signature: what ``PREFIX_signature`` returns, uint64.
        empty_inputs: numbers of the inputs that have no elements: NULL is right for them, as it is
            for outputs of no bytes.
    """

    prefix: str
    calls: Sequence[tuple[str, Sequence[Operand | MovingOperand]]]
    inputs: int
    outputs: Sequence[tuple[Operand, int]]
    arena_bytes: int
    loops: Sequence[Repetition] = ()
    denormals: Denormals = "flush"
    signature: int = 0
    empty_inputs: frozenset[int] = frozenset()


def entry_symbols(prefix: str) -> tuple[str, ...]:
    """The names of the C functions."""
    return tuple(f"{prefix}_{name}" for name in _FUNCTIONS)


def build_entry(entry: Entry, target: Target) -> bytes:
    """Object code of the entry.

    Symbols of the object:

        int PREFIX_init(void)
        int PREFIX_run(const void *const *inputs, void *const *outputs)
        void PREFIX_free(void)
        void *PREFIX_create(void)
        int PREFIX_run_in(void *context, const void *const *inputs, void *const *outputs)
        void PREFIX_destroy(void *context)
        int PREFIX_abi(void)
        uint64_t PREFIX_signature(void)

    It needs the kernels, ``constants``, and of the C library posix_memalign, madvise, free, memset
    and memcpy.
    """
    triple = triple_of(target)
    text = f'target triple = "{triple}"\n{denormals_text(triple)}{entry_text(entry)}'
    return emit_object(text, target)


def entry_text(entry: Entry) -> str:
    """The entry's LLVM IR."""
    constants = f"@{CONSTANTS_SYMBOL} = external hidden constant i8, align {BUFFER_ALIGNMENT}"
    kernels = dict.fromkeys(symbol for symbol, _ in entry.calls)
    return "\n".join([
        constants,
        *(f"declare hidden void @{symbol}(ptr, ptr)" for symbol in kernels),
        _memory_functions(entry.prefix, max(entry.arena_bytes, BUFFER_ALIGNMENT)),
        *_run(entry),
        _identity(entry),
    ])  # fmt: skip


def _identity(entry: Entry) -> str:
    """What a program asks a library for that it loads when it runs."""
    signed = entry.signature - (1 << 64) if entry.signature >> 63 else entry.signature
    return (
        f"define i32 @{entry.prefix}_abi() nounwind {{ ret i32 {ABI_VERSION} }}\n"
        f"define i64 @{entry.prefix}_signature() nounwind {{ ret i64 {signed} }}\n"
    )


def _memory_functions(prefix: str, arena_bytes: int) -> str:
    aligned = f"ptr align {BUFFER_ALIGNMENT}"
    return f"""\
@arena = internal global ptr null, align 8
@running = internal global i32 0, align 4
declare i32 @posix_memalign(ptr, i64, i64)
declare i32 @madvise(ptr, i64, i32)
declare void @free(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal ptr @take_memory() nounwind {{
entry:
  %slot = alloca ptr, align 8
  %status = call i32 @posix_memalign(ptr %slot, i64 {_HUGE_PAGE_BYTES}, i64 {arena_bytes})
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %full, label %fill
fill:
  %memory = load ptr, ptr %slot, align 8
  %advised = call i32 @madvise(ptr %memory, i64 {arena_bytes}, i32 {_ADVISE_HUGE_PAGES})
  call void @llvm.memset.p0.i64({aligned} %memory, i8 0, i64 {arena_bytes}, i1 false)
  ret ptr %memory
full:
  ret ptr null
}}

define i32 @{prefix}_init() nounwind {{
entry:
  %old = load ptr, ptr @arena, align 8
  %fresh = icmp eq ptr %old, null
  br i1 %fresh, label %allocate, label %ready
allocate:
  %memory = call ptr @take_memory()
  store ptr %memory, ptr @arena, align 8
  %failed = icmp eq ptr %memory, null
  br i1 %failed, label %full, label %ready
ready:
  ret i32 {OK}
full:
  ret i32 {OUT_OF_MEMORY}
}}

define void @{prefix}_free() nounwind {{
  %memory = load ptr, ptr @arena, align 8
  call void @free(ptr %memory)
  store ptr null, ptr @arena, align 8
  ret void
}}

define ptr @{prefix}_create() nounwind {{
  %memory = call ptr @take_memory()
  ret ptr %memory
}}

define void @{prefix}_destroy(ptr %memory) nounwind {{
  call void @free(ptr %memory)
  ret void
}}

define i32 @{prefix}_run(ptr %inputs, ptr %outputs) nounwind {{
  %memory = load ptr, ptr @arena, align 8
  %fresh = icmp eq ptr %memory, null
  br i1 %fresh, label %uninitialized, label %claim
claim:
  %pair = cmpxchg ptr @running, i32 0, i32 1 acquire monotonic
  %claimed = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %claimed, label %work, label %busy
work:
  %code = call i32 @{prefix}_run_in(ptr %memory, ptr %inputs, ptr %outputs)
  store atomic i32 0, ptr @running release, align 4
  ret i32 %code
uninitialized:
  ret i32 {NOT_INITIALIZED}
busy:
  ret i32 {BUSY}
}}
"""


def _run(entry: Entry) -> list[str]:
    width = max((len(arguments) for _, arguments in entry.calls), default=1)
    lines = [
        f"define i32 @{entry.prefix}_run_in(ptr %memory, ptr %inputs, ptr %outputs) nounwind {{",
        f"  %table = alloca [{max(width, 1)} x ptr], align 16",
        *_null_check(
            {"memory": True, "inputs": entry.inputs > 0, "outputs": len(entry.outputs) > 0}, "load"
        ),
        "load:",
        *_loads("input", entry.inputs),
        *_loads("output", len(entry.outputs)),
        *_null_check(
            {f"input{n}": n not in entry.empty_inputs for n in range(entry.inputs)}
            | {f"output{n}": size > 0 for n, (_, size) in enumerate(entry.outputs)},
            "work",
        ),
        "work:",
        f"  %state = call i64 @denormals_enter(i32 {flush_flag(entry.denormals)})",
    ]
    lines += _calls(entry)
    for number, (operand, size) in enumerate(entry.outputs):
        if operand == Operand("output", number):
            continue
        lines += [
            _address(operand, f"%result{number}"),
            f"  call void @llvm.memcpy.p0.p0.i64(ptr %output{number}, ptr %result{number}, "
            f"i64 {size}, i1 false)",
        ]
    return [
        *lines,
        "  call void @denormals_leave(i64 %state)",
        f"  ret i32 {OK}",
        f"missing:\n  ret i32 {NULL_POINTER}",
        "}",
    ]


def _calls(entry: Entry) -> list[str]:
    """All calls; those of a repetition in a block of their own that jumps back to itself."""
    lines: list[str] = []
    starts = {loop.first: loop for loop in entry.loops}
    ends = {loop.first + loop.count - 1: loop for loop in entry.loops}
    block, counter = "work", -1
    for call, (symbol, arguments) in enumerate(entry.calls):
        if call in starts:
            lines += [
                f"  br label %loop{call}",
                f"loop{call}:",
                f"  %i{call} = phi i64 [0, %{block}], [%next{call}, %loop{call}]",
                f"  %start{call} = icmp eq i64 %i{call}, 0",
                f"  %before{call} = sub i64 %i{call}, 1",
            ]
            counter = call
        for number, operand in enumerate(arguments):
            slot, address = f"%slot{call}.{number}", f"%address{call}.{number}"
            lines += (
                [_address(operand, address)]
                if isinstance(operand, Operand)
                else _moving_address(operand, address, counter)
            )
            lines += [
                f"  {slot} = getelementptr ptr, ptr %table, i64 {number}",
                f"  store ptr {address}, ptr {slot}, align 8",
            ]
        lines.append(f"  call void @{symbol}(ptr %table, ptr null)")
        if call in ends:
            lines += [
                f"  %next{counter} = add i64 %i{counter}, 1",
                f"  %more{counter} = icmp ult i64 %next{counter}, {ends[call].trips}",
                f"  br i1 %more{counter}, label %loop{counter}, label %after{counter}",
                f"after{counter}:",
            ]
            block = f"after{counter}"
    return lines


def _moving_address(operand: MovingOperand, name: str, counter: int) -> list[str]:
    """The address in the iteration that ``%i{counter}`` counts."""
    if not operand.stride and operand.first is None:
        return [
            _address(operand.operand, f"{name}.whole"),
            f"  {name} = getelementptr i8, ptr {name}.whole, i64 {operand.start}",
        ]
    index = f"%i{counter}" if operand.first is None else f"%before{counter}"
    lines = [_address(operand.operand, f"{name}.whole")]
    if operand.period:
        lines.append(f"  {name}.turn = urem i64 {index}, {operand.period}")
        index = f"{name}.turn"
    moved = name if operand.first is None else f"{name}.later"
    lines += [
        f"  {name}.moved = mul i64 {index}, {operand.stride}",
        f"  {name}.offset = add i64 {name}.moved, {operand.start}",
        f"  {moved} = getelementptr i8, ptr {name}.whole, i64 {name}.offset",
    ]
    if operand.first is not None:
        lines += [
            _address(operand.first, f"{name}.first"),
            f"  {name} = select i1 %start{counter}, ptr {name}.first, ptr {moved}",
        ]
    return lines


def _address(operand: Operand, name: str) -> str:
    if operand.base in ("input", "output"):
        return f"  {name} = getelementptr i8, ptr %{operand.base}{operand.offset}, i64 0"
    base = "%memory" if operand.base == "arena" else "@constants"
    return f"  {name} = getelementptr i8, ptr {base}, i64 {operand.offset}"


def _loads(kind: str, count: int) -> list[str]:
    return [
        line
        for number in range(count)
        for line in (
            f"  %{kind}{number}.at = getelementptr ptr, ptr %{kind}s, i64 {number}",
            f"  %{kind}{number} = load ptr, ptr %{kind}{number}.at, align 8",
        )
    ]


def _null_check(pointers: Mapping[str, bool], following: str) -> list[str]:
    """To ``missing`` if a pointer is null that is marked as needed, else to ``following``."""
    lines, condition = [], "false"
    for name in (name for name, needed in pointers.items() if needed):
        lines += [
            f"  %{name}.null = icmp eq ptr %{name}, null",
            f"  %{name}.any = or i1 {condition}, %{name}.null",
        ]
        condition = f"%{name}.any"
    return [*lines, f"  br i1 {condition}, label %missing, label %{following}"]
