"""A build function for tests of the runner: decision "fault" says what goes wrong.

The task is ``C(i) = A[i]*W[i]`` over 64 floats, W constant.
"""

import os
import time

import llvmlite.binding as llvm

from codegen.kernel import Argument, Kernel
from sketch.errors import LoweringError

LOOP = """
define void @{symbol}(ptr %args) {{
entry:
  %slot_a = getelementptr ptr, ptr %args, i64 {first}
  %slot_w = getelementptr ptr, ptr %args, i64 {second}
  %slot_c = getelementptr ptr, ptr %args, i64 2
  %a = load ptr, ptr %slot_a
  %w = load ptr, ptr %slot_w
  %c = load ptr, ptr %slot_c
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %pa = getelementptr float, ptr %a, i64 %i
  %pw = getelementptr float, ptr %w, i64 %i
  %pc = getelementptr float, ptr %c, i64 %i
  %x = load float, ptr %pa
  %y = load float, ptr %pw
  %z = {operation} float %x, %y
  store float %z, ptr %pc
  {extra}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {trips}
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
# The loop, in a region of two chunks that both do all of it.
PARALLEL = (
    LOOP.format(symbol="region", first=0, second=1, operation="fmul", extra="", trips=64)
    + """
declare void @autosched_region(ptr, ptr, ptr, i64, i64)
define void @kernel(ptr %args, ptr %team) {
  call void @autosched_region(ptr %team, ptr @region, ptr %args, i64 2, i64 2)
  ret void
}
"""
)
BODIES = {
    "segfault": "store i32 1, ptr null, align 4\n  ret void",
    "illegal": "call void @llvm.trap()\n  ret void",
    # waits, and takes no processor from other tests meanwhile
    "hang": "br label %again\nagain:\n  call i32 @pause()\n  br label %again",
}


def _loop(**changes):
    parts = {"first": 0, "second": 1, "operation": "fmul", "extra": "", "trips": 64}
    return LOOP.format(symbol="kernel", **(parts | changes))


def _body(text):
    declared = "declare void @llvm.trap()\ndeclare i32 @pause()\n"
    return f"{declared}define void @kernel(ptr %args) {{\n  {text}\n}}\n"


def _compile(text):
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(text)
    machine = llvm.Target.from_default_triple().create_target_machine(
        opt=2, reloc="pic", codemodel="default"
    )
    return machine.emit_object(module)


def _kernel(text, target, names=("A", "W")):
    scopes = {"A": "input", "W": "constant"}
    arguments = [Argument(n, "float32", (64,), scopes.get(n, "input")) for n in names]
    output = Argument("C", "float32", (64,), "output")
    return Kernel(
        name="C",
        symbol="kernel",
        object_code=_compile(text),
        arguments=(*arguments, output),
        workspace_bytes=0,
        target=target,
        instructions=1,
    )


def _kill_builder():
    os.abort()


def _hang_builder():
    time.sleep(60)


def _fail_lowering():
    raise LoweringError("no tile fits", "stage C", "use another")


RIGHT, WRONG, UNWRITTEN, SEGFAULT, ILLEGAL, HANG, NO_IR, BUILDER_DIES, BUILDER_HANGS, NO_NEST, \
    SCRIBBLE, STRANGER, TWO_THREADS, A_LITTLE_OFF = range(14)  # fmt: skip
TEXTS = {
    RIGHT: _loop(),
    WRONG: _loop(operation="fadd"),
    UNWRITTEN: _loop(trips=63),
    SEGFAULT: _body(BODIES["segfault"]),
    ILLEGAL: _body(BODIES["illegal"]),
    HANG: _body(BODIES["hang"]),
    NO_IR: "define void @kernel(ptr %args) { ret i32 }",
    # 2**-18 more: within 1e-5 of the largest result, but not of the others
    A_LITTLE_OFF: _loop(
        extra="%off = fadd float %z, 0x3ED0000000000000\n  store float %off, ptr %pc"
    ),
    SCRIBBLE: _loop(extra="store float 0.5, ptr %pa"),
    STRANGER: _loop(),
    TWO_THREADS: PARALLEL,
}
ACTIONS = {BUILDER_DIES: _kill_builder, BUILDER_HANGS: _hang_builder, NO_NEST: _fail_lowering}


def build(sketch, values):
    fault = values["fault"]
    if fault in ACTIONS:
        ACTIONS[fault]()
    names = ("B", "W") if fault == STRANGER else ("A", "W")
    return _kernel(TEXTS[fault], sketch.target, names)
