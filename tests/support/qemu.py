"""Kernels for Arm on other machines: a program without a library, linked, run by qemu."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from codegen.kernel import Kernel
from codegen.llvm.machine import emit_object
from sketch.lang.dtypes import numpy_dtype

_EMULATORS: Final = ("qemu-aarch64", "qemu-aarch64-static")
_LINKERS: Final = ("aarch64-linux-gnu-ld", "ld.lld")
_READ, _WRITE, _EXIT = 63, 64, 93
# mov x8, x3; svc #0; ret: LLVM here has no assembler for Arm.
_SYSTEM: Final = (0xAA0303E8, 0xD4000001, 0xD65F03C0)


def _first(names: tuple[str, ...]) -> str | None:
    return next((path for path in map(shutil.which, names) if path is not None), None)


def missing_qemu() -> str | None:
    """Why kernels for Arm cannot run here; None: they can."""
    for names in (_EMULATORS, _LINKERS):
        if _first(names) is None:
            return f"none of {', '.join(names)} is installed"
    return None


def run_in_qemu(
    kernel: Kernel, inputs: Mapping[str, np.ndarray], folder: Path
) -> dict[str, np.ndarray]:
    """The outputs of a kernel, by the names of its arguments; ``folder`` keeps what is made."""
    objects = {"kernel.o": kernel.object_code}
    objects["start.o"] = emit_object(_start(kernel), kernel.target)
    for name, content in objects.items():
        (folder / name).write_bytes(content)
    emulator, linker = _first(_EMULATORS), _first(_LINKERS)
    assert emulator is not None and linker is not None
    program = folder / "program"
    files = [str(folder / name) for name in objects]
    subprocess.run([linker, "-static", "-o", str(program), *files], check=True)
    given = [a for a in kernel.arguments if a.scope != "output"]
    (folder / "input").write_bytes(
        b"".join(np.ascontiguousarray(inputs[argument.name]).tobytes() for argument in given)
    )
    with (folder / "input").open("rb") as data:
        done = subprocess.run(
            [emulator, "-cpu", "max", str(program)],
            stdin=data, capture_output=True, check=True, timeout=120,
        )  # fmt: skip
    found, start = {}, 0
    for argument in kernel.arguments:
        if argument.scope == "output":
            dtype, count = numpy_dtype(argument.dtype), math.prod(argument.shape)
            found[argument.name] = np.frombuffer(done.stdout, dtype, count, start)
            start += count * dtype.itemsize
    return found


def _start(kernel: Kernel) -> str:
    """LLVM IR of a program that reads what a kernel reads, calls it, and writes what it wrote."""
    sizes = [math.prod(a.shape) * numpy_dtype(a.dtype).itemsize for a in kernel.arguments]
    sizes.append(max(1, kernel.workspace_bytes))
    memory = [
        f"@m{n} = internal global [{size} x i8] zeroinitializer, align 64"
        for n, size in enumerate(sizes)
    ]
    slots = ", ".join(f"ptr @m{n}" for n in range(len(sizes)))
    words = ", ".join(f"i32 {word}" for word in _SYSTEM)
    body = []
    for number, argument in enumerate(kernel.arguments):
        if argument.scope != "output":
            body.append(_system(_READ, f"i64 0, ptr @m{number}, i64 {sizes[number]}", f"a{number}"))
    body.append(f"  call void @{kernel.symbol}(ptr @slots, ptr null)")
    for number, argument in enumerate(kernel.arguments):
        if argument.scope == "output":
            where = f"i64 1, ptr @m{number}, i64 {sizes[number]}"
            body.append(_system(_WRITE, where, f"a{number}"))
    body.append(_system(_EXIT, "i64 0, ptr null, i64 0", "done"))
    return "\n".join([
        'target triple = "aarch64-unknown-linux-gnu"',
        *memory,
        f"@slots = internal global [{len(sizes)} x ptr] [{slots}]",
        f"@system = internal constant [{len(_SYSTEM)} x i32] [{words}], section \".text.system\"",
        f"declare void @{kernel.symbol}(ptr, ptr)",
        "define void @_start() noreturn nounwind {",
        *body,
        "  unreachable",
        "}",
    ])  # fmt: skip


def _system(number: int, operands: str, name: str) -> str:
    return f"  %{name} = call i64 @system({operands}, i64 {number})"
