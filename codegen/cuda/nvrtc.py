"""CUDA C++ to machine code with NVRTC; no driver and no device is needed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from codegen.cuda.kernel import CudaSource, Resources
from codegen.errors import CodegenError
from sketch.errors import TargetError

_HINT = 'pip install "autosched[cuda]"'
# What `ptxas -v` says about one kernel.  The properties of a kernel may come before its "Used" line
# with other lines in between, never those of another kernel.
_ENTRY = re.compile(r"Compiling entry function '(\w+)' for '\w+'")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
# The architecture that has units which several warps compute on together.
_GROUPS = "sm_90"
# Threads of a processor that hide latencies where each has much to do at a time.
_ROOMY_THREADS = 384


def missing_compiler(arch: str | None = None) -> str | None:
    """Why NVRTC cannot be used here, or for ``arch``, as a sentence; None where it can."""
    try:
        from cuda.bindings import nvrtc

        status, *release = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError, OSError):  # their text lists all folders that were searched
        return f"NVRTC is not installed: {_HINT}"
    if int(status) != 0:
        return f"NVRTC does not start ({status}): {_HINT}"
    if arch is None:
        return None
    known = [f"sm_{number}" for number in nvrtc.nvrtcGetSupportedArchs()[1]]
    if arch.removesuffix("a") in known:
        return None
    version = ".".join(map(str, release))
    return f"NVRTC {version} has no code for {arch}: it knows {', '.join(known)}"


def release_of_compiler() -> tuple[int, int]:
    """Major and minor number of NVRTC's release; it must be there."""
    from cuda.bindings import nvrtc

    _, major, minor = nvrtc.nvrtcVersion()
    return int(major), int(minor)


def compiler_key(arch: str) -> str:
    """What a cubin depends on beside the text; raises TargetError where NVRTC cannot make one."""
    reason = missing_compiler(arch)
    if reason is not None:
        raise TargetError(reason, "CUDA code")
    return f"NVRTC {release_of_compiler()} {' '.join(_options(arch))}"


def compile_source(
    source: CudaSource, arch: str
) -> tuple[bytes, tuple[tuple[str, Resources], ...]]:
    """The cubin for ``arch`` (``sm_90``), and the resources of each kernel; NVRTC must be there.

    Raises:
        TargetError: the program computes on tensor units that the architecture does not have.
        CodegenError: NVRTC refuses the program; the message carries its log.
    """
    arch = with_units(source, arch)
    cubin, log = _compile(source.text, source.name, arch)
    found = parse_resources(log)
    if any(resources.spills for resources in found.values()):
        # the compiler gave up registers for more threads on a processor
        roomy, log = _compile(with_room(source), source.name, arch)
        fewer = parse_resources(log)
        if _spilled(fewer) < _spilled(found):
            cubin, found = roomy, fewer
    for launch in source.launches:
        if launch.symbol not in found:
            raise CodegenError(f"the compiler's log has no resources of {launch.symbol}", "NVRTC")
    return cubin, tuple((launch.symbol, found[launch.symbol]) for launch in source.launches)


def with_units(source: CudaSource, arch: str) -> str:
    """The architecture whose code may have what only it has, where a program does.

    Raises:
        TargetError: ``arch`` does not have the program's tensor units.
    """
    if "wgmma_" not in source.text:
        return arch
    if arch != _GROUPS:
        raise TargetError(
            f"{source.name} computes on tensor units that {arch} does not have",
            "CUDA code",
            "compile it for that GPU",
        )
    return f"{arch}a"


def with_room(source: CudaSource) -> str:
    """The text with kernels that need no more threads on a processor than a few blocks have, so
    that the registers of the others are theirs.
    """
    text = source.text
    for launch in source.launches:
        blocks = max(1, _ROOMY_THREADS // launch.block)
        bounds = f"__launch_bounds__({launch.block}"
        text = text.replace(
            f"{bounds})\n{launch.symbol}(", f"{bounds}, {blocks})\n{launch.symbol}("
        )
    return text


def _spilled(found: Mapping[str, Resources]) -> int:
    return sum(r.spill_store_bytes + r.spill_load_bytes for r in found.values())


def _options(arch: str) -> list[str]:
    return [f"--gpu-architecture={arch}", "--std=c++17", "--ptxas-options=-v"]


def _compile(text: str, name: str, arch: str) -> tuple[bytes, str]:
    from cuda.bindings import nvrtc

    program = _checked(
        nvrtc.nvrtcCreateProgram(text.encode(), f"{name}.cu".encode(), 0, [], []), name
    )
    try:
        options = _options(arch)
        status = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])[0]
        log = _read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program, name)
        text_log = log.decode(errors="replace").rstrip("\0")
        if int(status) != 0:
            raise CodegenError(
                f"NVRTC refuses {name} for {arch}: {text_log.strip()}",
                "NVRTC",
                "take another row of decisions",
            )
        return _read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program, name), text_log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _read(size_of: Any, read: Any, program: Any, name: str) -> bytes:
    """What one of NVRTC's pairs of functions (size, contents) gives."""
    buffer = bytearray(_checked(size_of(program), name))
    contents = bytes(buffer)
    _checked((*read(program, contents), None), name)
    return contents


def _checked(result: tuple[Any, ...], name: str) -> Any:
    status, value = result[0], result[1]
    if int(status) != 0:
        raise CodegenError(f"NVRTC fails on {name}: {status}", "NVRTC")
    return value


def parse_resources(log: str) -> dict[str, Resources]:
    """Resources by kernel, from a log of ``--ptxas-options=-v``."""
    starts = list(_ENTRY.finditer(log))
    ends = [match.start() for match in starts[1:]] + [len(log)]
    found: dict[str, Resources] = {}
    for match, end in zip(starts, ends, strict=True):
        part = log[match.end() : end]
        stack, registers = _STACK.search(part), _REGISTERS.search(part)
        shared = _SHARED.search(part)
        if stack is None or registers is None:
            continue
        found[match.group(1)] = Resources(
            registers=int(registers.group(1)),
            spill_store_bytes=int(stack.group(2)),
            spill_load_bytes=int(stack.group(3)),
            stack_bytes=int(stack.group(1)),
            shared_bytes=int(shared.group(1)) if shared else 0,
        )
    return found
