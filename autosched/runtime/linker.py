"""Finding a linker, and making a shared library with it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Tried in this order; compilers know where the libraries are, bare linkers are told.
_COMPILERS: Final = ("cc", "gcc", "clang")
_LINKERS: Final = ("ld", "ld.lld")
_CROSS_COMPILER: Final = "{}-linux-gnu-gcc"
TOOLS: Final = (*_COMPILERS, *_LINKERS)
"""What can link, the best first."""
_LIBRARY_FOLDERS: Final = (
    "/lib64", "/usr/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib",
)  # fmt: skip
_TIMEOUT_S: Final = 600


@dataclass(frozen=True, slots=True)
class LinkResult:
    """Whether a shared library was written, and with what, or why not."""

    written: bool
    note: str


def link_shared(source: Path, output: Path, needs_openmp: bool, machine: str = "") -> LinkResult:
    """Link one object to a shared library, with the first tool that succeeds.

    Args:
        source: the object.
        output: the library.
        needs_openmp: the library shall load libgomp by itself.
        machine: what the code is for, such as ``aarch64``, where that is not this machine.
    """
    if machine:
        return _link_for(machine, source, output, needs_openmp)
    found = [tool for tool in TOOLS if shutil.which(tool) is not None]
    if not found:
        names = ", ".join(TOOLS)
        return LinkResult(False, f"no shared library: none of {names} is installed")
    failures = []
    for tool in found:
        command = link_command(tool, source, output, needs_openmp)
        message = _run(command)
        if message is None:
            return LinkResult(True, f"linked by {tool}")
        output.unlink(missing_ok=True)
        failures.append(f"{tool}: {message}")
    return LinkResult(False, f"no shared library: {'; '.join(failures)}")


def _link_for(machine: str, source: Path, output: Path, needs_openmp: bool) -> LinkResult:
    """Link for another machine, whose C library only a compiler for it has."""
    compiler = _CROSS_COMPILER.format(machine)
    if shutil.which(compiler) is None:
        reason = f"{compiler} is not installed (Debian: gcc-{machine}-linux-gnu)"
    else:
        message = _run([compiler, *_compiler_options(source, output, needs_openmp)])
        if message is None:
            return LinkResult(True, f"linked by {compiler}")
        output.unlink(missing_ok=True)
        reason = f"{compiler}: {message}"
    there = " ".join(["cc", *_compiler_options(Path(source.name), Path(output.name), needs_openmp)])
    return LinkResult(
        False,
        f"no shared library: {source.name} is for {machine}, and {reason}; object and headers are "
        f"complete: link there, or with a compiler and its libraries for {machine}: {there}",
    )


def link_command(tool: str, source: Path, output: Path, needs_openmp: bool) -> list[str]:
    """The command line of a compiler or linker.

    Args:
        tool: path of the compiler or linker.
        source: what is linked.
        output: the shared library.
        needs_openmp: link an OpenMP library, too.
    """
    if tool in _COMPILERS:
        return [tool, *_compiler_options(source, output, needs_openmp)]
    command = [tool, "-shared", "-o", str(output), str(source)]
    folders = [f"-L{folder}" for folder in _LIBRARY_FOLDERS]
    libraries = [*(["-l:libgomp.so.1"] if needs_openmp else []), "-l:libm.so.6", "-l:libc.so.6"]
    return [*command, *folders, *libraries]


def _compiler_options(source: Path, output: Path, needs_openmp: bool) -> list[str]:
    """Undefined symbols are an error now rather than when the library is loaded."""
    openmp = ["-lgomp"] if needs_openmp else []
    return ["-shared", "-o", str(output), str(source), "-Wl,-z,defs", *openmp, "-lm"]


def _run(command: Sequence[str]) -> str | None:
    """None when the command succeeded, else why not, on one line."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return lines[0] if lines else f"exit code {done.returncode}"
